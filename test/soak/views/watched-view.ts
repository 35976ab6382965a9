import type { Endpoint } from '../../../src/kas/command/endpoint.ts'
import type { ShownView } from '../../../src/kas/modules/views/cli/shown-view.ts'
import { ViewClient } from '../../../src/kas/modules/views/cli/view-client.ts'
import { systemClock } from '../../../src/lib/clock.ts'
import type { Query } from '../../../src/proto/views-json.ts'

const shownMs = 60_000

/** One view as `kas tree --watch` follows it, with all nodes open; measures the gaps between updates. */
export class WatchedView {
  readonly query: Query
  readonly #endpoint: Endpoint
  readonly #stopping = new AbortController()
  #ended: Promise<void> = Promise.resolve()
  #shown: string | undefined
  #model: ShownView | undefined
  #changedAt = 0
  #longestGapMs = 0
  #updates = 0
  #refusal: Error | undefined
  #wake = () => {}

  constructor(endpoint: Endpoint, query: Query) {
    this.#endpoint = endpoint
    this.query = query
  }

  /** reason of an end by itself */
  get refusal(): Error | undefined {
    return this.#refusal
  }

  /** all rows, if the view is complete and live: equal texts mean equal rows */
  get shown(): string | undefined {
    return this.#shown
  }

  get model(): ShownView | undefined {
    return this.#model
  }

  /** live updates so far */
  get updates(): number {
    return this.#updates
  }

  /** Longest time between two live updates since the last call, with the current gap. ms */
  takeGap(): number {
    const longest = Math.max(this.#longestGapMs, performance.now() - this.#changedAt)
    this.#longestGapMs = 0
    this.#changedAt = performance.now()
    return longest
  }

  start(): void {
    this.#changedAt = performance.now()
    const client = new ViewClient({ clock: systemClock, random: Math.random }, this.#endpoint, {
      query: this.query,
      opens: () => true,
      onChange: (model, isWhole) => this.#changed(model, isWhole),
      onLost: () => {
        this.#shown = undefined
      },
    })
    this.#ended = client.run(this.#stopping.signal).catch((error: Error) => {
      this.#refusal = error
      this.#wake()
    })
  }

  /** Waits until `condition` holds. @returns duration. ms. @throws Error if it does not in time, or the view ended */
  until(what: string, condition: () => boolean, timeoutMs: number, signal: AbortSignal): Promise<number> {
    return this.#until(
      what,
      () => {
        if (this.#refusal) throw new Error(`${this.#text}: ${what}: it ended`, { cause: this.#refusal })
        return condition()
      },
      timeoutMs,
      signal,
    )
  }

  /** Waits until the view has ended by itself. @returns duration. ms */
  ends(timeoutMs: number, signal: AbortSignal): Promise<number> {
    return this.#until('it ends', () => this.#refusal !== undefined, timeoutMs, signal)
  }

  async stop(): Promise<void> {
    this.#stopping.abort()
    await this.#ended
  }

  async #until(what: string, holds: () => boolean, timeoutMs: number, signal: AbortSignal): Promise<number> {
    const began = performance.now()
    const late = AbortSignal.any([signal, AbortSignal.timeout(timeoutMs)])
    while (!holds()) {
      signal.throwIfAborted()
      if (late.aborted) throw new Error(`${this.#text}: not in ${timeoutMs} ms: ${what}`)
      const { promise, resolve } = Promise.withResolvers<void>()
      this.#wake = resolve
      const onLate = () => resolve()
      late.addEventListener('abort', onLate, { once: true })
      await promise
      late.removeEventListener('abort', onLate)
    }
    return performance.now() - began
  }

  get #text(): string {
    return `the view ${JSON.stringify(this.query)}`
  }

  #changed(model: ShownView, isWhole: boolean): boolean {
    this.#model = model
    const isLive = isWhole && model.state.is === 'live'
    this.#shown = isLive ? textOf(model) : undefined
    if (isLive) {
      this.#updates += 1
      this.#longestGapMs = Math.max(this.#longestGapMs, performance.now() - this.#changedAt)
      this.#changedAt = performance.now()
    }
    this.#wake()
    return false
  }
}

/** Returns the same query's result for a new viewer. */
export async function freshView(endpoint: Endpoint, query: Query, signal: AbortSignal): Promise<string> {
  const view = new WatchedView(endpoint, query)
  view.start()
  try {
    await view.until('live', () => view.shown !== undefined, shownMs, signal)
    return view.shown as string
  } finally {
    await view.stop()
  }
}

function textOf(model: ShownView): string {
  const pages = [...model.pages].sort(([a], [b]) => (a < b ? -1 : 1))
  return JSON.stringify(pages.map(([node, page]) => [node, page, model.children(node)]))
}
