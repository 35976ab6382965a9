import { builtIn } from '../../../../kubernetes/kind.ts'
import { type KubernetesObject, listAt, numberAt, textAt } from '../../../../kubernetes/object.ts'
import { collectionPath, withQuery } from '../../../../kubernetes/path.ts'
import type { Clock } from '../../../../lib/clock.ts'
import { KasError } from '../../../../lib/errors.ts'
import { type EventRow, viewsBounds } from '../../../../proto/views-json.ts'
import type { ApiClient } from '../../../cluster/api-client.ts'
import { isTooLarge } from '../../../cluster/object-list.ts'
import { compareEvents, readEvent } from '../projection/event.ts'

/** Bound of one answer with events. */
const maxAnswerBytes = 4 * 1024 * 1024
/** Answers that are read to find the latest events: the API server lists events by name, not by time. */
const maxAnswers = 4

export interface EventsQuestion {
  /** empty: all namespaces */
  readonly namespace: string
  /** uid of the object that the events are about; absent: any object */
  readonly about?: string
  /** maximum number of events, in total and per answer */
  readonly limit: number
  /** headers of the identity to act as, from `Identities.headers` */
  readonly headers: readonly string[]
}

export interface LatestEvents {
  /** the latest first */
  readonly rows: readonly EventRow[]
  /** number of older events, and of unread ones: at least 1 of these if any was not read */
  readonly more: number
}

/**
 * Reads events of any type, as the caller.
 *
 * @returns the latest events of the first `maxAnswers` answers (shorter ones after one that was too large); undefined:
 * the caller may not list them there
 * @throws KasError UNREACHABLE, or the connection's error
 */
export async function askEvents(
  api: Pick<ApiClient, 'json'>,
  { namespace, about, limit, headers }: EventsQuestion,
  signal: AbortSignal,
): Promise<LatestEvents | undefined> {
  const collection = collectionPath(builtIn.events, namespace)
  const fieldSelector = about === undefined ? undefined : `involvedObject.uid=${escaped(about)}`
  let latest: EventRow[] = []
  let more = 0
  let goOn = ''
  let size = limit
  let unread = 1
  for (let answers = 0; answers < maxAnswers; answers++) {
    const path = withQuery(collection, { limit: size, fieldSelector, continue: goOn })
    const options = { headers, maxBytes: maxAnswerBytes }
    const answer = await api.json('GET', path, undefined, signal, options).catch((error: unknown) => {
      if (size === 1 || !isTooLarge(error)) throw error
    })
    if (!answer) {
      size = Math.ceil(size / 10)
      continue
    }
    const { status, body } = answer
    if (status === 403) return undefined
    if (status !== 200) {
      const detail = `the API server answered ${status} for events`
      throw new KasError({ code: 'UNREACHABLE', detail, httpStatus: status })
    }
    latest = [...latest, ...listAt(body, 'items').flatMap((item) => readEvent(item) ?? [])].sort(compareEvents)
    more += latest.splice(limit).length
    goOn = textAt(body as KubernetesObject, 'metadata.continue')
    if (goOn === '') return { rows: latest, more }
    unread = numberAt(body as KubernetesObject, 'metadata.remainingItemCount') ?? 1
  }
  return { rows: latest, more: more + unread }
}

/** Escapes the characters that have a meaning in a field selector. */
function escaped(value: string): string {
  return value.replaceAll(/[\\,=]/g, (sign) => `\\${sign}`)
}

/**
 * Reads events as the caller, in the caller's turn.
 *
 * @returns undefined: the caller may not list them there, or the API server did not answer
 */
export type AskEvents = (
  question: Omit<EventsQuestion, 'headers'>,
  signal: AbortSignal,
) => Promise<LatestEvents | undefined>

/** Maximum number of objects and namespaces of a view whose events are read at a time. */
const maxAsked = 5
/** Time from an answer to the next question, and the longest that a caller who lost the right still sees events. ms */
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

/** Reads events of objects and of namespaces, again and again while somebody views them. */
export class AskedEvents {
  readonly #components: AskedEventsComponents
  readonly #asked = new Map<string, Asked>()

  constructor(components: AskedEventsComponents) {
    this.#components = components
  }

  get size(): number {
    return this.#asked.size
  }

  /** Yields each answered node with its latest events; undefined: the caller may not list them. */
  *answered(): Iterable<readonly [node: string, rows: readonly EventRow[] | undefined, more: number]> {
    for (const [node, { latest, limit, isAnswered }] of this.#asked) {
      const { rows = [], more = 0 } = latest ?? {}
      if (isAnswered) yield [node, latest && rows.slice(0, limit), Math.max(0, rows.length - limit) + more]
    }
  }

  /**
   * @param node - `o:<namespace>:<uid>` of an object, `n:<namespace>`, or `n:` for all namespaces
   * @param ask - undefined: there is no room for another node
   * @returns true if the node has one of these forms and there is room for it
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

  /** @returns true if it was open */
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

/** @returns undefined: the node is neither an object's nor a namespace's */
function readNode(node: string): Pick<EventsQuestion, 'namespace' | 'about'> | undefined {
  const [, ofAll] = /^n:([^:]*)$/.exec(node) ?? []
  if (ofAll !== undefined) return { namespace: ofAll }
  const [, namespace, about] = /^o:([^:]*):(.+)$/.exec(node) ?? []
  return namespace !== undefined && about !== undefined ? { namespace, about } : undefined
}
