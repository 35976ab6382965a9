import { type AgentId, parseAgentId } from '../../../call/call.ts'
import { parseDuration } from '../../../lib/config.ts'
import { KasError } from '../../../lib/errors.ts'
import { kubernetesApiMethod } from '../../../proto/http/http-over-grpc.ts'
import type { LineFilter } from '../../access-log/recent-lines.ts'
import type { ReplicaLinks } from '../../peers/replica-links.ts'
import type { MergedLines, ReplicaLog } from '../../sessions/replica-log.ts'
import { maxReasonCharacters, type ReplicaSessions } from '../../sessions/replica-sessions.ts'
import type { SessionFilter } from '../../sessions/session-table.ts'
import type { OpenStream, OpsAnswer } from './ops-socket.ts'
import { type RouteComponents, routeReport } from './route-report.ts'
import { type StatusComponents, statusReport } from './status-report.ts'

const methodPattern = /^\/[^/\s]+\/[^/\s]+$/

/** Answers on the Unix socket: `/status[?agent=N]` and `/route?agent=N[&method=/package.Service/Method]`. */
export function opsAnswers(known: StatusComponents & RouteComponents) {
  return {
    '/status': (query: URLSearchParams) => {
      const agent = query.get('agent')
      return statusReport(known, agent === null ? undefined : agentIdOf(agent))
    },
    '/route': (query: URLSearchParams) => {
      const method = query.get('method') ?? kubernetesApiMethod
      if (!methodPattern.test(method)) {
        throw new KasError({ code: 'INVALID_MESSAGE', detail: `${method} is no method: /package.Service/Method` })
      }
      return routeReport(known, agentIdOf(query.get('agent') ?? ''), method)
    },
  }
}

/** Answer `/links`: which replicas reach which. Absent if this replica is alone. */
export function linksAnswers(links: Pick<ReplicaLinks, 'report'> | undefined) {
  return links ? { '/links': () => links.report() } : {}
}

/** @throws KasError INVALID_MESSAGE */
export function agentIdOf(text: string): AgentId {
  const agentId = parseAgentId(text)
  if (agentId !== undefined) return agentId
  throw new KasError({ code: 'INVALID_MESSAGE', detail: `"${text}" is no id of an agent` })
}

type Asked = Pick<ReplicaSessions, 'list' | 'end'>

/** Answer `GET /sessions[?agent=N][&user=NAME][&id=ID]`: long-lived sessions of all replicas. */
export function sessionAnswers(sessions: Asked): Record<string, OpsAnswer> {
  return { '/sessions': (query) => sessions.list(sessionFilterOf(query)) }
}

/** Answer `POST /sessions/end?…[&reason=TEXT]`, with at least one filter: ends the sessions that match. */
export function sessionActions(sessions: Asked): Record<string, OpsAnswer> {
  return {
    '/sessions/end': (query) => {
      const filter = sessionFilterOf(query)
      const reason = query.get('reason') ?? ''
      if (Object.keys(filter).length === 0) throw invalid('agent, user or id is needed: else all would end')
      if (reason.length > maxReasonCharacters) throw invalid(`reason: at most ${maxReasonCharacters} characters`)
      return sessions.end(filter, reason)
    },
  }
}

function sessionFilterOf(query: URLSearchParams): SessionFilter {
  const [agent, user, id] = ['agent', 'user', 'id'].map((name) => parameterOf(query, name))
  return {
    ...(agent === undefined ? {} : { agentId: agentIdOf(agent) }),
    ...(user === undefined ? {} : { user }),
    ...(id === undefined ? {} : { id }),
  }
}

/** Refuses an empty parameter, because without it more would match than meant. @throws KasError INVALID_MESSAGE */
function parameterOf(query: URLSearchParams, name: string): string | undefined {
  const value = query.get(name) ?? undefined
  if (value === '') throw invalid(`${name} is empty`)
  return value
}

function invalid(detail: string): KasError {
  return new KasError({ code: 'INVALID_MESSAGE', detail })
}

/**
 * Stream `/log[?agent=N][&user=NAME][&verb=VERB][&since=10m][&follow=true]`: the last lines of all replicas' access
 * logs, and with `follow` the new ones.
 */
export function logStreams(log: Pick<ReplicaLog, 'read' | 'open'>): Record<string, OpenStream> {
  return {
    '/log': async (query) => {
      const filter = lineFilterOf(query)
      if (query.get('follow') !== 'true') {
        const merged = await log.read(filter)
        return { lines: merged.lines, headers: headersOf(merged) }
      }
      const { follow, ...merged } = await log.open(filter)
      return { lines: merged.lines, headers: headersOf(merged), follow }
    },
  }
}

/** Headers with names of replicas, comma-separated, whose lines are missing or incomplete. */
export const logHeaders = { unreached: 'kas-unreached', incomplete: 'kas-incomplete' } as const

function headersOf({ unreached, incomplete }: MergedLines): Record<string, string> {
  const namesOf = (names: readonly string[]) => names.map(encodeURIComponent).join()
  return {
    ...(unreached.length > 0 ? { [logHeaders.unreached]: namesOf(unreached) } : {}),
    ...(incomplete.length > 0 ? { [logHeaders.incomplete]: namesOf(incomplete) } : {}),
  }
}

function lineFilterOf(query: URLSearchParams): LineFilter {
  const since = query.get('since')
  return {
    agent: query.get('agent') ?? undefined,
    user: query.get('user') ?? undefined,
    verb: query.get('verb') ?? undefined,
    since: since === null ? undefined : timeOf(since),
  }
}

/** Parses a duration before now, or a time. @returns the time as in a log line. @throws KasError INVALID_MESSAGE */
function timeOf(text: string): string {
  const agoMs = parseDuration(text)
  const at = agoMs === undefined ? Date.parse(text) : Date.now() - agoMs
  if (!Number.isNaN(at)) return new Date(at).toISOString()
  throw new KasError({ code: 'INVALID_MESSAGE', detail: `since: "${text}" is neither a duration as 10m nor a time` })
}
