import type { AgentId } from '../../../call/call.ts'
import type { Membership } from '../../../membership/membership.ts'
import { isUsable, type Reach } from '../../peers/link.ts'
import type { Links } from '../../peers/links.ts'
import type { TunnelRegistry } from '../../tunnels/tunnel-registry.ts'

/** A peer that holds the agent. */
export interface CandidateReport {
  readonly name: string
  readonly state: string
  readonly reach: Reach
  /** running calls of this replica that are handed over to it */
  readonly calls: number
  /** a pod there serves the method */
  readonly serves: boolean
}

export interface RouteReport {
  readonly agentId: string
  readonly method: string
  /** name of this replica, where the call would come in */
  readonly entry: string
  /** names of replicas, best first */
  readonly rank: readonly string[]
  readonly own: {
    readonly tunnels: number
    /** idle tunnels that serve the method */
    readonly idle: number
    readonly waiting: number
  }
  /** candidates in the order in which they would be tried; then holders that do not serve the method */
  readonly ways: readonly CandidateReport[]
  /** `wait`: no tunnel is known to be idle; the first that becomes idle gets the call */
  readonly verdict: 'own' | 'hand-over' | 'wait' | 'unreachable' | 'not-served' | 'not-connected'
  /** name of the replica whose tunnel would be used, or that is tried first */
  readonly by?: string
  /** a sentence */
  readonly why: string
}

export interface RouteComponents {
  readonly name: string
  readonly tunnels: Pick<TunnelRegistry, 'counts'>
  /** undefined: this replica is alone */
  readonly peering: RoutePeering | undefined
}

interface RoutePeering {
  readonly membership: Pick<Membership, 'instance' | 'row' | 'holders' | 'rank'>
  readonly links: Pick<Links, 'candidates' | 'link'>
}

/** Reports how a call of the method would be routed if it came in here now (doc/internals/routing.md). */
export function routeReport(components: RouteComponents, agentId: AgentId, method: string): RouteReport {
  const { name, tunnels, peering } = components
  const { idle, waiting, living } = tunnels.counts(agentId, method)
  const own = { tunnels: living, idle, waiting }
  const candidates = peering ? candidatesOf(peering, agentId, method) : []
  const servesHere = living > 0 && (!peering || servedHere(peering, agentId, method))
  return {
    agentId: String(agentId),
    method,
    entry: name,
    rank: peering?.membership.rank(String(agentId)) ?? [name],
    own,
    ways: candidates,
    ...decide(name, { ...own, servesHere }, candidates),
  }
}

/** Decides like the router: an own idle tunnel, else the holders in their order, else the first that becomes idle. */
function decide(
  name: string,
  own: RouteReport['own'] & { servesHere: boolean },
  candidates: readonly CandidateReport[],
): Pick<RouteReport, 'verdict' | 'by' | 'why'> {
  if (own.idle > 0) return { verdict: 'own', by: name, why: 'an idle tunnel of this replica serves the method' }
  const serving = candidates.filter(({ serves }) => serves)
  const inReach = serving.filter(({ reach }) => isUsable(reach))
  const [best] = inReach
  if (best) {
    const here = own.tunnels > 0 ? 'no tunnel here that serves the method is idle' : 'the agent has no tunnel here'
    const many = inReach.length > 1 ? `the first of ${inReach.length} other holders` : 'the only other holder'
    const why = `${here}; ${best.name} is ${many}: ${best.reach}, ${best.state}, ${best.calls} calls of ours there`
    return { verdict: 'hand-over', by: best.name, why }
  }
  if (own.servesHere) return { verdict: 'wait', by: name, why: 'every tunnel here that serves the method is busy' }
  if (serving.length > 0) {
    const names = serving.map((each) => `${each.name} (${each.reach})`).join(', ')
    return { verdict: 'unreachable', why: `the holders do not answer: ${names}; the call fails after 3 s` }
  }
  if (own.tunnels > 0 || candidates.length > 0) {
    return { verdict: 'not-served', why: 'the agent is connected, but no pod of it serves the method' }
  }
  return { verdict: 'not-connected', why: 'no replica holds the agent; the call waits for it, for 20 s' }
}

function candidatesOf({ membership, links }: RoutePeering, agentId: AgentId, method: string): CandidateReport[] {
  const report = (instance: Parameters<typeof membership.row>[0], serves: boolean): CandidateReport => {
    const { name = '', state = 'joining' } = membership.row(instance)?.head ?? {}
    const link = links.link(instance)
    return { name, state, reach: link?.reach ?? 'down', calls: link?.calls ?? 0, serves }
  }
  const served = links.candidates(agentId, method).map(({ instance }) => instance)
  const rest = membership.holders(agentId).filter(({ row }) => !served.includes(row.instance))
  return [
    ...served.map((instance) => report(instance, true)),
    ...rest.map(({ row, methods }) => report(row.instance, methods.has(method))),
  ]
}

function servedHere({ membership }: RoutePeering, agentId: AgentId, method: string): boolean {
  const connections = [...(membership.row(membership.instance)?.connections.values() ?? [])]
  return connections.some((one) => one.agentId === agentId && one.methods.includes(method))
}
