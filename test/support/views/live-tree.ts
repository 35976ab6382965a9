import type { Endpoint } from '../../../src/kas/command/endpoint.ts'
import { isGroup, type ShownView } from '../../../src/kas/modules/views/cli/shown-view.ts'
import { ViewClient } from '../../../src/kas/modules/views/cli/view-client.ts'
import { systemClock } from '../../../src/lib/clock.ts'
import type { Query, Row, ViewState } from '../../../src/proto/views-json.ts'
import { patience } from '../slowness.ts'

export interface LiveTreeOptions {
  readonly endpoint: Endpoint
  readonly query: Query
  /** rows to open; default: groups alone */
  readonly opens?: (row: Row) => boolean
  /** called with each update */
  readonly onUpdate?: (model: ShownView) => void
}

/** A view as a viewer follows it, across losses of connections, replicas and pods. */
export class LiveTree {
  readonly #stopping = new AbortController()
  readonly #listeners = new Set<() => void>()
  readonly #ended: Promise<void>
  #model: ShownView | undefined
  #isLive = false
  #refusal: Error | undefined

  constructor({ endpoint, query, opens = isGroup, onUpdate }: LiveTreeOptions) {
    const client = new ViewClient({ clock: systemClock, random: Math.random }, endpoint, {
      query,
      opens,
      onChange: (model, isWhole) => {
        this.#model = model
        this.#isLive = isWhole && model.state.is === 'live'
        onUpdate?.(model)
        this.#wake()
        return false
      },
      onLost: () => {
        this.#isLive = false
        this.#wake()
      },
    })
    this.#ended = client.run(this.#stopping.signal).catch((error: Error) => {
      this.#isLive = false
      this.#refusal = error
      this.#wake()
    })
  }

  /** complete and current */
  get isLive(): boolean {
    return this.#isLive
  }

  /** absent: there has been no update */
  get state(): ViewState | undefined {
    return this.#model?.state
  }

  /** time by which the agent's clock is ahead of ours. ms */
  get ahead(): number {
    return this.#model?.ahead ?? 0
  }

  /** Rows at the root, and in its groups. */
  get roots(): readonly Row[] {
    const model = this.#model
    if (!model) return []
    return model.children('').flatMap((row) => (isGroup(row) ? model.children(row.u) : [row]))
  }

  /**
   * Resolves with the result of `look`, as soon as there is one.
   *
   * @throws Error with `what` and the rows of the view: not in time, or the view was refused
   */
  async until<Found>(what: string, look: () => Found | undefined | false, timeoutMs: number): Promise<Found> {
    const late = AbortSignal.timeout(patience(timeoutMs))
    for (;;) {
      const found = look()
      if (found !== undefined && found !== false) return found
      if (this.#refusal)
        throw new Error(`${what}: the view has ended: ${this.#refusal.message}`, { cause: this.#refusal })
      if (late.aborted) throw new Error(`${what}: not in ${timeoutMs} ms`)
      const { promise, resolve } = Promise.withResolvers<void>()
      this.#listeners.add(resolve)
      late.addEventListener('abort', () => resolve(), { once: true })
      await promise
      this.#listeners.delete(resolve)
    }
  }

  async stop(): Promise<void> {
    this.#stopping.abort()
    await this.#ended
  }

  #wake(): void {
    for (const listener of [...this.#listeners]) listener()
  }
}
