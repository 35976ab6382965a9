import { type AgentId, parseAgentId } from '../../../call/call.ts'
import type { Clock } from '../../../lib/clock.ts'
import { KasError } from '../../../lib/errors.ts'
import { kubernetesApiMethod } from '../../../proto/http/http-over-grpc.ts'
import type { ReplicaLinks } from '../../peers/replica-links.ts'
import type { FrontTickets } from '../front-tickets.ts'
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
