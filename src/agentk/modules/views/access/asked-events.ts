import type { Clock } from '../../../../lib/clock.ts'
import { type EventRow, viewsBounds } from '../../../../proto/views-json.ts'
import type { EventsQuestion, LatestEvents } from './ask-events.ts'

/** As the caller, in its turn. @returns undefined: it may not list them there, or nobody knows */
export type AskEvents = (
  question: Omit<EventsQuestion, 'headers'>,
  signal: AbortSignal,
) => Promise<LatestEvents | undefined>

/** Objects and namespaces of a view whose events are asked for at a time. */
const maxAsked = 5
/** From one answer to the next question: who may no longer list them sees them no longer than this. ms */
const againMs = 15_000

interface Asked {
  limit: number
  /** undefined: refused, or not answered yet */
  latest: LatestEvents | undefined
  isAnswered: boolean
  readonly stop: () => void
}

export interface AskedEventsComponents {
  readonly clock: Clock
  readonly onChange: () => void
}

/** Events of single objects and of namespaces, of whatever type: asked of the API server again and again while somebody views them. */
export class AskedEvents {
  readonly #components: AskedEventsComponents
  readonly #asked = new Map<string, Asked>()

  constructor(components: AskedEventsComponents) {
    this.#components = components
  }

  get size(): number {
    return this.#asked.size
  }

  /** Nodes that were answered, each with its latest events; undefined: it is refused. */
  *answered(): Iterable<readonly [node: string, rows: readonly EventRow[] | undefined, more: number]> {
    for (const [node, { latest, limit, isAnswered }] of this.#asked) {
      const { rows = [], more = 0 } = latest ?? {}
      if (isAnswered) yield [node, latest && rows.slice(0, limit), Math.max(0, rows.length - limit) + more]
    }
  }

  /**
   * @param node - `o:<namespace>:<uid>` of an object, `n:<namespace>`, `n:` of all namespaces
   * @param ask - undefined: there is no room for further ones
   * @returns whether it is such a one, and there is room for it
   */
  open(node: string, limit: number, ask: AskEvents | undefined): boolean {
    const known = this.#asked.get(node)
    if (known) {
      known.limit = limit
      this.#components.onChange()
      return true
    }
    const about = readNode(node)
    if (!about || !ask || this.#asked.size >= maxAsked) return false
    const stopping = new AbortController()
    const asked: Asked = { limit, latest: undefined, isAnswered: false, stop: () => stopping.abort() }
    this.#asked.set(node, asked)
    const question = { ...about, limit: viewsBounds.maxLimit }
    void this.#repeat(asked, () => ask(question, stopping.signal), stopping.signal)
    return true
  }

  /** @returns whether it was open */
  close(node: string): boolean {
    this.#asked.get(node)?.stop()
    return this.#asked.delete(node)
  }

  stop(): void {
    for (const node of [...this.#asked.keys()]) this.close(node)
  }

  async #repeat(asked: Asked, ask: () => ReturnType<AskEvents>, signal: AbortSignal): Promise<void> {
    const { clock, onChange } = this.#components
    const latest = await ask()
    if (signal.aborted) return
    asked.latest = latest
    asked.isAnswered = true
    onChange()
    const cancel = clock.after(againMs, () => {
      signal.removeEventListener('abort', cancel)
      void this.#repeat(asked, ask, signal)
    })
    signal.addEventListener('abort', cancel, { once: true })
  }
}

/** @returns undefined: it is neither an object's nor a namespace's */
function readNode(node: string): Pick<EventsQuestion, 'namespace' | 'about'> | undefined {
  const [, ofAll] = /^n:([^:]*)$/.exec(node) ?? []
  if (ofAll !== undefined) return { namespace: ofAll }
  const [, namespace, about] = /^o:([^:]*):(.+)$/.exec(node) ?? []
  return namespace !== undefined && about !== undefined ? { namespace, about } : undefined
}
