import { builtIn } from '../../../../kubernetes/kind.ts'
import { type KubernetesObject, listAt, numberAt, textAt } from '../../../../kubernetes/object.ts'
import { collectionPath, withQuery } from '../../../../kubernetes/path.ts'
import { KasError } from '../../../../lib/errors.ts'
import type { EventRow } from '../../../../proto/views-json.ts'
import type { ApiClient } from '../../../cluster/api-client.ts'
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
  /** whom it acts as: `impersonationHeaders` */
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

function isTooLarge(error: unknown): boolean {
  return error instanceof KasError && error.code === 'MESSAGE_TOO_LARGE'
}

/** In a field selector these have a meaning. */
function escaped(value: string): string {
  return value.replaceAll(/[\\,=]/g, (sign) => `\\${sign}`)
}
