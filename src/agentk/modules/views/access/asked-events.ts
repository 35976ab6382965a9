import { builtIn } from '../../../../kubernetes/kind.ts'
import { type KubernetesObject, listAt, numberAt, textAt } from '../../../../kubernetes/object.ts'
import { collectionPath, withQuery } from '../../../../kubernetes/path.ts'
import type { Clock } from '../../../../lib/clock.ts'
import { KasError } from '../../../../lib/errors.ts'
import { type EventRow, viewsBounds } from '../../../../proto/views-json.ts'
import type { ApiClient } from '../../../cluster/api-client.ts'
import { isTooLarge } from '../../../cluster/object-list.ts'
import { compareEvents, readEvent } from '../projection/event.ts'

/** Of an answer to a question for events. */
const maxAnswerBytes = 4 * 1024 * 1024
/** The API server lists them by name, not by time: so many answers are read to find the latest. */
const maxAnswers = 4

export interface EventsQuestion {
  /** empty: all */
  readonly namespace: string
  /** uid of the object that they are about; absent: any */
  readonly about?: string
  /** at most, and of one answer */
  readonly limit: number
  /** whom it acts as: `Identities.headers` */
  readonly headers: readonly string[]
}

export interface LatestEvents {
  /** the latest first */
  readonly rows: readonly EventRow[]
  /** older ones, and those that were not read: of these one at least */
  readonly more: number
}

/**
 * Events of any type, as the API server gives them to the caller; Warnings alone are followed.
 *
 * @returns the latest of the first `maxAnswers` answers, of fewer events each once one is too large; undefined: the caller
 * may not list them there. @throws KasError UNREACHABLE, or the connection's error
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

/** In a field selector these have a meaning. */
function escaped(value: string): string {
  return value.replaceAll(/[\\,=]/g, (sign) => `\\${sign}`)
}

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
