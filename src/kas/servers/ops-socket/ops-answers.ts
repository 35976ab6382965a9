import { type AgentId, parseAgentId } from '../../../call/call.ts'
import type { Clock } from '../../../lib/clock.ts'
import { parseDuration } from '../../../lib/config.ts'
import { KasError } from '../../../lib/errors.ts'
import { kubernetesApiMethod } from '../../../proto/http/http-over-grpc.ts'
import type { LineFilter } from '../../access-log/recent-lines.ts'
import type { ReplicaLinks } from '../../peers/replica-links.ts'
import type { MergedLines, ReplicaLog } from '../../sessions/replica-log.ts'
import { maxReasonCharacters, type ReplicaSessions } from '../../sessions/replica-sessions.ts'
import type { SessionFilter } from '../../sessions/session-table.ts'
import type { FrontTickets } from '../front-tickets.ts'
import type { OpenStream, OpsAnswer } from './ops-socket.ts'
import { type RouteComponents, routeReport } from './route-report.ts'
import { type StatusComponents, statusReport } from './status-report.ts'

const methodPattern = /^\/[^/\s]+\/[^/\s]+$/

/** What the Unix socket answers: `/status[?agent=N]` and `/route?agent=N[&method=/package.Service/Method]`. */
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

/** `/links`: which replicas reach which. Not there where this replica is alone. */
export function linksAnswers(links: Pick<ReplicaLinks, 'report'> | undefined) {
  return links ? { '/links': () => links.report() } : {}
}

/** `/front-ticket`: what lets `kas doctor` in to the check of a front. */
export function frontAnswers(tickets: Pick<FrontTickets, 'make'>, clock: Pick<Clock, 'now'>) {
  return { '/front-ticket': () => ({ ticket: tickets.make(clock.now()) }) }
}

/** @throws KasError INVALID_MESSAGE */
export function agentIdOf(text: string): AgentId {
  const agentId = parseAgentId(text)
  if (agentId !== undefined) return agentId
  throw new KasError({ code: 'INVALID_MESSAGE', detail: `"${text}" is no id of an agent` })
}

type Asked = Pick<ReplicaSessions, 'list' | 'end'>

/** `GET /sessions[?agent=N][&user=NAME][&id=ID]`: what lasts, at all replicas. */
export function sessionAnswers(sessions: Asked): Record<string, OpsAnswer> {
  return { '/sessions': (query) => sessions.list(sessionFilterOf(query)) }
}

/** `POST /sessions/end?…[&reason=TEXT]`, with one filter at least: ends what matches it. */
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

/** One that is empty is not left out: the others would match more than was meant. @throws KasError INVALID_MESSAGE */
function parameterOf(query: URLSearchParams, name: string): string | undefined {
  const value = query.get(name) ?? undefined
  if (value === '') throw invalid(`${name} is empty`)
  return value
}

function invalid(detail: string): KasError {
  return new KasError({ code: 'INVALID_MESSAGE', detail })
}

/**
 * `/log[?agent=N][&user=NAME][&verb=VERB][&since=10m][&follow=true]`: the last lines of the access log of all replicas, and
 * those that follow.
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

/** Names of replicas, with commas, whose lines are not there, or not all. */
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

/** So long ago, or a time. @returns as in a line. @throws KasError INVALID_MESSAGE */
function timeOf(text: string): string {
  const agoMs = parseDuration(text)
  const at = agoMs === undefined ? Date.parse(text) : Date.now() - agoMs
  if (!Number.isNaN(at)) return new Date(at).toISOString()
  throw new KasError({ code: 'INVALID_MESSAGE', detail: `since: "${text}" is neither a duration as 10m nor a time` })
}
