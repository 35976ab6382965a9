import { KasError } from '../../../../lib/errors.ts'
import { abortable, linkedController } from '../../../../lib/signals.ts'
import { Turns } from '../../../../lib/turns.ts'

/** Limit of builds of previews that wait: one for each preview of the agent. */
const maxWaiting = 8
const tooMany = () => new Error(`more than ${maxWaiting} previews wait to be built`)
/** Turns for the parts of a preview's build, which is alone anyway. */
const freeTurns: Pick<Turns<string>, 'take'> = { take: async () => () => undefined }

/** Build of a preview that runs. */
interface PreviewBuild {
  readonly ends: AbortController
  /** resolves once it has given back its memory */
  readonly ended: Promise<void>
}

/**
 * Turns for work on commits, which takes much memory: first those of rounds, then builds of previews, one at a time. A
 * preview begins while no round is at work. If a round comes, the build is aborted, and is begun again later.
 */
export class RoundsFirst {
  readonly #turns: Pick<Turns<string>, 'take'>
  readonly #previews = new Turns<string>({ maxRunning: 1, maxWaiting, tooMany })
  /** turns of rounds that run or wait */
  #working = 0
  #idle = Promise.withResolvers<void>()
  #preview: PreviewBuild | undefined

  /** Turns of rounds, by project. */
  readonly rounds: Pick<Turns<string>, 'take'> = { take: (project, signal) => this.#take(project, signal) }
  /** Turns of the parts of one preview's build. */
  readonly parts = freeTurns

  /** @param turns - by project: as many as the pod has memory for */
  constructor(turns: Pick<Turns<string>, 'take'>) {
    this.#turns = turns
  }

  /**
   * Builds a preview once no round is at work.
   *
   * @param user - builds of different users take turns. @param build - is called again after it was aborted for a round
   * @throws the error of `build`; Error: too many wait; the signal's reason
   */
  async preview<T>(user: string, signal: AbortSignal, build: (signal: AbortSignal) => Promise<T>): Promise<T> {
    return await this.#previews.run(user, signal, async () => {
      for (;;) {
        while (this.#working > 0) await abortable(this.#idle.promise, signal)
        const built = await this.#try(signal, build)
        if (built !== 'madeWay') return built.value
      }
    })
  }

  async #try<T>(
    signal: AbortSignal,
    build: (signal: AbortSignal) => Promise<T>,
  ): Promise<{ readonly value: T } | 'madeWay'> {
    const ends = linkedController(signal)
    const { promise: ended, resolve } = Promise.withResolvers<void>()
    this.#preview = { ends, ended }
    try {
      return { value: await build(ends.signal) }
    } catch (error) {
      if (signal.aborted || !ends.signal.aborted) throw error
      return 'madeWay'
    } finally {
      ends.dispose()
      this.#preview = undefined
      resolve()
    }
  }

  async #take(project: string, signal: AbortSignal): Promise<() => void> {
    this.#working += 1
    try {
      this.#preview?.ends.abort(new KasError({ code: 'CANCELLED', detail: 'a preview makes way for a round' }))
      if (this.#preview) await abortable(this.#preview.ended, signal)
      const end = await this.#turns.take(project, signal)
      let isOver = false
      return () => {
        if (isOver) return
        isOver = true
        end()
        this.#leave()
      }
    } catch (error) {
      this.#leave()
      throw error
    }
  }

  #leave(): void {
    this.#working -= 1
    if (this.#working > 0) return
    this.#idle.resolve()
    this.#idle = Promise.withResolvers()
  }
}
