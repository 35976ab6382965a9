import type { Clock } from './clock.ts'

/**
 * Does the same to each, one after another, evenly over `ms`; to the first at once.
 *
 * @param over.rest - what follows after that
 * @returns ends it: nothing is done to those whose turn has not come, nor does anything follow
 */
export function spread<Item>(
  items: readonly Item[],
  act: (item: Item) => void,
  { ms, clock, rest }: { readonly ms: number; readonly clock: Clock; readonly rest: () => void },
): () => void {
  const cancels = items.map((item, i) => clock.after((ms * i) / items.length, () => act(item)))
  cancels.push(clock.after(ms, rest))
  return () => {
    for (const cancel of cancels) cancel()
  }
}
