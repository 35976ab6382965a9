import { parseDuration } from '../lib/config.ts'
import { KasError } from '../lib/errors.ts'
import { UserQuestions } from '../lib/user-questions.ts'
import type { AccessLine } from './access-log/access-line.ts'
import { type LineFilter, maxOwnLines } from './access-log/recent-lines.ts'
import type { OwnEndpoint, OwnRequest } from './own-endpoint.ts'
import type { ReplicaLog } from './sessions/replica-log.ts'

/** Bound of lines in one answer: own answers of kas have 4 MiB at most. bytes */
const maxOwnLineBytes = 3 * 1024 * 1024
/** Bounds of running questions: each one asks all replicas. */
const maxQuestions = {
  /** questions of one user (`log_questions_of_user`) */
  maxOfUser: 1,
  /** questions of all users (`log_questions_of_users`) */
  max: 20,
}

const parameters: ReadonlySet<string> = new Set(['agent', 'verb', 'since'])

/**
 * Serves `GET <prefix>log[?agent=N][&verb=VERB][&since=10m]`: a user's own lines of the access log of all replicas,
 * without addresses of others (doc/reference/access-log.md "Your own lines").
 */
export function ownLinesEndpoint(log: Pick<ReplicaLog, 'read'>): OwnEndpoint {
  const names = { ofUser: 'log_questions_of_user', ofUsers: 'log_questions_of_users' } as const
  const questions = new UserQuestions({ ...maxQuestions, names, what: 'questions for the lines of a user' })
  return {
    path: '/log',
    methods: ['GET'],
    isLong: true,
    async serve({ who, query, signal }) {
      if (!who || who.isJob) {
        const detail = 'kas shows lines of the access log to users, not to CI jobs: use a token of your own'
        throw new KasError({ code: 'IDENTITY_REFUSED', detail })
      }
      const filter = { ...filterOf(query), userId: String(who.userId) }
      return await questions.run(who.userId, signal, async () => {
        const { lines, ...others } = await log.read(filter, { last: maxOwnLines })
        const own = newest(lines).map((line) => withoutOthersAddress(line, who.address))
        const isCut = own.length < lines.length || own.length === maxOwnLines
        const body = `{"lines":[${own.join()}],${JSON.stringify({ cut: isCut, ...others }).slice(1)}`
        return { status: 200, mediaType: 'application/json', body: Buffer.from(body) }
      })
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
