import type { AgentId } from '../../../call/call.ts'
import { Counter } from '../../../lib/counter.ts'
import type { Membership, Row, RowConnection, RowRegistration } from '../../../membership/membership.ts'
import { decodeMessage } from '../../../proto/decode.ts'
import { AgentMetaSchema } from '../../../proto/gen/entity_pb.ts'
import type { KasModule, StatusLine } from '../../module.ts'
import type { Reach } from '../../peers/link.ts'
import type { Links } from '../../peers/links.ts'
import type { RefusedCallers } from '../../tunnels/refused-callers.ts'
import type { TunnelRegistry } from '../../tunnels/tunnel-registry.ts'

/** A replica, as this replica sees it. */
export interface MemberReport {
  readonly name: string
  readonly instance: string
  readonly state: string
  readonly version: string
  /** address of its server `replicas`; absent: unknown */
  readonly address?: string
  /** state of this replica's link to it */
  readonly reach: 'self' | Reach
  /** running calls that this replica has handed over to it */
  readonly calls: number
  /** it is connected for gossip now */
  readonly gossip: boolean
  /** living instances with the same name */
  readonly instances: number
  readonly row: {
    readonly version: number
    readonly connections: number
    readonly pods: number
    readonly agents: number
  }
}

export interface AgentReport {
  readonly agentId: string
  /** replicas with a connection of the agent, by name */
  readonly holders: readonly { readonly name: string; readonly connections: number }[]
  /** pods that registered, at any replica */
  readonly pods: number
  /** names of replicas, best first */
  readonly rank: readonly string[]
  /** entries of the agent in all rows; absent: the report is about all agents */
  readonly entries?: readonly EntryReport[]
}

export interface EntryReport {
  readonly replica: string
  readonly kind: 'connection' | 'registration'
  /** name of the pod, as it reports itself */
  readonly pod: string
  readonly role: string
  readonly version: string
  readonly methods: readonly string[]
  /** ms since 1970 */
  readonly since: number
}

/** A caller at this replica that was refused for one agent. */
export interface RefusedCallerReport {
  /** `user 7`, or `project 42` of jobs */
  readonly caller: string
  readonly agentId: string
  /** tunnels that the caller had, at the replica that refused it last */
  readonly held: number
  /** tunnels of the agent there */
  readonly living: number
  /** the caller's tunnels with a watch */
  readonly watches: number
  /** calls that were refused */
  readonly refused: number
  /** ms since 1970 */
  readonly lastAt: number
}

export interface StatusReport {
  /** id of this start of the replica, by which all replicas let `kas doctor` check a front */
  readonly instance: string
  readonly replica: { readonly name: string; readonly version: string; readonly problem?: string }
  /** absent: this replica is configured without peers */
  readonly members?: readonly MemberReport[]
  /** sorted by id; the first `maxAgents` only */
  readonly agents: readonly AgentReport[]
  readonly agentCount: number
  /** callers that this replica refused lately for more than their share; the last first */
  readonly refusedCallers?: readonly RefusedCallerReport[]
  /** by the module's name; absent: no module has a line */
  readonly modules?: Readonly<Record<string, readonly StatusLine[]>>
}

export interface StatusComponents {
  readonly instance: string
  readonly name: string
  readonly version: string
  readonly readiness: { problem(): string | undefined }
  readonly tunnels: Pick<TunnelRegistry, 'agentIds' | 'counts'>
  readonly refusedCallers: Pick<RefusedCallers, 'recent'>
  /** undefined: this replica is alone */
  readonly peering: StatusPeering | undefined
  readonly modules: readonly Pick<KasModule, 'name' | 'status'>[]
}

interface StatusPeering {
  readonly membership: Pick<Membership, 'instance' | 'rows' | 'row' | 'members' | 'rank'>
  readonly links: Pick<Links, 'link'>
}

/** Agents in one answer; `?agent=` asks for any other. */
const maxAgents = 200

/** Reports what this replica knows of itself, its peers and their agents: all agents in brief, or one in full. */
export function statusReport(components: StatusComponents, agentId?: AgentId): StatusReport {
  const { instance, name, version, readiness, peering } = components
  const problem = readiness.problem()
  const byAgent = holdingsByAgent(peering?.membership.rows() ?? [])
  const known = new Set([...components.tunnels.agentIds(), ...byAgent.keys()])
  const ids = agentId === undefined ? [...known].sort((one, other) => (one < other ? -1 : 1)) : [agentId]
  const inFull = agentId !== undefined
  return {
    instance,
    replica: { name, version, ...(problem === undefined ? {} : { problem }) },
    ...(peering ? { members: memberReports(peering) } : {}),
    agents: ids.slice(0, maxAgents).map((id) => agentReport(components, id, { ...byAgent.get(id), inFull })),
    agentCount: ids.length,
    ...refusedReports(components.refusedCallers, agentId),
    ...moduleReports(components.modules),
  }
}

function refusedReports(
  callers: StatusComponents['refusedCallers'],
  agentId: AgentId | undefined,
): Pick<StatusReport, 'refusedCallers'> {
  const recent = callers.recent().filter((each) => agentId === undefined || each.agentId === agentId)
  if (recent.length === 0) return {}
  const refusedCallers = recent.map(({ name: caller, agentId: id, last, count: refused, lastAt }) => {
    const { held, living, watches } = last
    return { caller, agentId: String(id), held, living, watches, refused, lastAt }
  })
  return { refusedCallers }
}

function moduleReports(modules: StatusComponents['modules']): Pick<StatusReport, 'modules'> {
  const reports = modules.map((module) => [module.name, module.status?.() ?? []] as const)
  const filled = reports.filter(([, lines]) => lines.length > 0)
  return filled.length > 0 ? { modules: Object.fromEntries(filled) } : {}
}

/** Entries of one agent in all rows. */
interface Holding {
  /** connections by name of the replica */
  readonly holders: Counter<string>
  readonly pods: Set<bigint>
}

/** Passes over each row once: there may be thousands of agents, and calls wait meanwhile. */
function holdingsByAgent(rows: readonly Row[]): Map<AgentId, Holding> {
  const byAgent = new Map<AgentId, Holding>()
  const of = (agentId: AgentId) => {
    const holding = byAgent.get(agentId) ?? { holders: new Counter(), pods: new Set() }
    byAgent.set(agentId, holding)
    return holding
  }
  for (const { head, connections, registrations } of rows) {
    for (const { agentId } of connections.values()) {
      const { holders } = of(agentId)
      holders.add(head.name)
    }
    for (const { agentId, podId } of registrations.values()) of(agentId).pods.add(podId)
  }
  return byAgent
}

function memberReports({ membership, links }: StatusPeering): MemberReport[] {
  return membership.members().map(({ name, instance, state, address, self, connected, instances }) => {
    const row = membership.row(instance)
    const link = links.link(instance)
    return {
      name,
      instance,
      state,
      version: row?.head.kasVersion ?? '',
      ...(address === undefined ? {} : { address }),
      reach: self ? 'self' : (link?.reach ?? 'down'),
      calls: link?.calls ?? 0,
      gossip: connected,
      instances,
      row: rowReport(row),
    }
  })
}

function rowReport(row: Row | undefined): MemberReport['row'] {
  const connections = [...(row?.connections.values() ?? [])]
  const registrations = [...(row?.registrations.values() ?? [])]
  const agents = new Set([...connections, ...registrations].map(({ agentId }) => agentId)).size
  return { version: row?.version ?? 0, connections: connections.length, pods: registrations.length, agents }
}

function agentReport(
  { peering, tunnels, name }: StatusComponents,
  agentId: AgentId,
  { holders, pods, inFull }: Partial<Holding> & { inFull: boolean },
): AgentReport {
  if (!peering) {
    const { living } = tunnels.counts(agentId, '')
    return {
      agentId: String(agentId),
      holders: living > 0 ? [{ name, connections: living }] : [],
      pods: 0,
      rank: [name],
    }
  }
  return {
    agentId: String(agentId),
    holders: Array.from(holders?.counts ?? [], ([holder, connections]) => ({ name: holder, connections })),
    pods: pods?.size ?? 0,
    rank: peering.membership.rank(String(agentId)),
    ...(inFull ? { entries: entryReports(peering.membership.rows(), agentId) } : {}),
  }
}

function entryReports(rows: readonly Row[], agentId: AgentId): EntryReport[] {
  const isOfAgent = (item: { agentId: AgentId }) => item.agentId === agentId
  return rows.flatMap(({ head: { name }, connections, registrations }) => [
    ...[...connections.values()].filter(isOfAgent).map((each) => connectionReport(name, each)),
    ...[...registrations.values()].filter(isOfAgent).map((each) => registrationReport(name, each)),
  ])
}

function connectionReport(replica: string, { pod, role, methods, connectedAt: since }: RowConnection): EntryReport {
  return { replica, kind: 'connection', pod, role, version: '', methods, since }
}

function registrationReport(replica: string, { meta, registeredAt: since }: RowRegistration): EntryReport {
  const { podName: pod = '', version = '' } = metaOf(meta) ?? {}
  return { replica, kind: 'registration', pod, role: 'home', version, methods: [], since }
}

function metaOf(bytes: Uint8Array) {
  try {
    return decodeMessage(AgentMetaSchema, bytes)
  } catch {
    return undefined // an agent may send anything
  }
}
