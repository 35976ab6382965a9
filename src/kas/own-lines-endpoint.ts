import { parseDuration } from '../lib/config.ts'
import { Counter } from '../lib/counter.ts'
import { KasError } from '../lib/errors.ts'
import type { AccessLine } from './access-log/access-line.ts'
import { type LineFilter, maxOwnLines } from './access-log/recent-lines.ts'
import type { OwnEndpoint, OwnRequest } from './own-endpoint.ts'
import type { ReplicaLog } from './sessions/replica-log.ts'

/** Bound of lines in one answer: own answers of kas have 4 MiB at most. bytes */
const maxOwnLineBytes = 3 * 1024 * 1024
/**
 * Bound of running questions of one user (`log_questions_of_user`): each one asks all replicas. Those of all users take
 * turns with other long answers.
 */
const maxQuestionsOfUser = 1

const parameters: ReadonlySet<string> = new Set(['agent', 'verb', 'since'])

/**
 * Serves `GET <prefix>log[?agent=N][&verb=VERB][&since=10m]`: a user's own lines of the access log of all replicas,
 * without addresses of others (doc/reference/access-log.md "Your own lines").
 */
export function ownLinesEndpoint(log: Pick<ReplicaLog, 'read'>): OwnEndpoint {
  const questions = new Counter<bigint>({ maxOfKey: maxQuestionsOfUser })
  return {
    path: '/log',
    methods: ['GET'],
    isLong: true,
    async serve({ who, query }) {
      if (!who || who.isJob) {
        const detail = 'kas shows lines of the access log to users, not to CI jobs: use a token of your own'
        throw new KasError({ code: 'IDENTITY_REFUSED', detail })
      }
      const filter = { ...filterOf(query), userId: String(who.userId) }
      const leave = questions.enter(who.userId)
      if (!leave) {
        const what = 'questions for the lines of a user'
        throw new KasError({ code: 'TOO_MANY_STREAMS', name: 'log_questions_of_user', limit: maxQuestionsOfUser, what })
      }
      try {
        const { lines, ...others } = await log.read(filter, { last: maxOwnLines })
        const own = newest(lines).map((line) => withoutOthersAddress(line, who.address))
        const isCut = own.length < lines.length || own.length === maxOwnLines
        const body = `{"lines":[${own.join()}],${JSON.stringify({ cut: isCut, ...others }).slice(1)}`
        return { status: 200, mediaType: 'application/json', body: Buffer.from(body) }
      } finally {
        leave()
      }
    },
  }
}

/** Returns the newest lines that fit. */
function newest(lines: readonly string[]): readonly string[] {
  let bytes = 0
  let first = lines.length
  while (first > 0 && lines.length - first < maxOwnLines) {
    bytes += Buffer.byteLength(lines[first - 1] as string)
    if (bytes > maxOwnLineBytes) break
    first--
  }
  return lines.slice(first)
}

/**
 * Removes an address that is not the reader's own. Another person may use the user's token, and the user must not learn
 * from which address.
 */
function withoutOthersAddress(text: string, own: string | undefined): string {
  const { address, ...line } = JSON.parse(text) as AccessLine
  return JSON.stringify(address !== undefined && address === own ? { ...line, address } : line)
}

/** @throws KasError BAD_REQUEST */
function filterOf(query: OwnRequest['query']): LineFilter {
  for (const [name, values] of query) {
    if (!parameters.has(name)) throw bad(`the parameter ${JSON.stringify(name.slice(0, 64))} is not known`)
    if (values.length > 1) throw bad(`${name} stands more than once`)
    if (values[0] === '') throw bad(`${name} is empty`)
  }
  const [agent, verb, since] = ['agent', 'verb', 'since'].map((name) => query.get(name)?.[0])
  if (agent !== undefined && !/^[1-9]\d{0,18}$/.test(agent)) throw bad('agent: allowed is the id of an agent')
  return { agent, verb, since: since === undefined ? undefined : timeOf(since) }
}

/**
 * Reads a time.
 *
 * @param text - a duration before now, or a time
 * @returns the form of a line
 * @throws KasError BAD_REQUEST
 */
function timeOf(text: string): string {
  const agoMs = parseDuration(text)
  const at = agoMs === undefined ? Date.parse(text) : Date.now() - agoMs
  if (!Number.isNaN(at) && Math.abs(at) <= 8.64e15) return new Date(at).toISOString()
  throw bad('since: allowed is a duration such as 10m, or a time')
}

function bad(detail: string): KasError {
  return new KasError({ code: 'BAD_REQUEST', detail })
}
