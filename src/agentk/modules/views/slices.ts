import type { Clock } from '../../../lib/clock.ts'

/** Long work goes on this long at once, then others have their turn. ms */
const sliceMs = 8
/** The clock is asked once in as many steps. */
const stepsPerLook = 64

/**
 * Does `step` until it says that nothing is left, yielding in between.
 *
 * @param step - @returns whether there is more
 * @param done - called once, at once where it is short
 * @returns ends it before
 */
export function inSlices(clock: Clock, step: () => boolean, done: () => void): () => void {
  let cancel: () => void = () => undefined
  const slice = () => {
    const end = clock.now() + sliceMs
    for (let steps = 1; ; steps++) {
      if (!step()) return done()
      if (steps % stepsPerLook === 0 && clock.now() >= end) break
    }
    cancel = clock.after(0, slice)
  }
  slice()
  return () => cancel()
}
