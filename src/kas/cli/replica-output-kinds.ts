import type { Count, OutputKind, Time } from '../command/output.ts'

/**
 * Requests on 8154 that last: watches, logs that are followed, execs, port-forwards, views.
 *
 * @command kas sessions
 */
export interface SessionList extends OutputKind<'SessionList'> {
  /** sessions at the replicas that answered */
  readonly items: readonly SessionDescription[]
  /** sessions that there are, with those that are not listed */
  readonly total: Count
  /** names of replicas that did not answer; their sessions are not known */
  readonly unreached: readonly string[]
}

/** A session, in the words of the access log (doc/access-log.md). */
export interface SessionDescription {
  /** name of the replica that serves it */
  readonly replica: string
  /** UUID, also of its lines in the access log */
  readonly id: string
  /** begin */
  readonly since: Time
  /** whose credentials the request has */
  readonly caller?: SessionCaller | undefined
  /** as whom the request acts in the cluster; absent: as the agent */
  readonly as?: string | undefined
  /** names that the caller asks to act as */
  readonly askedAs?: readonly string[] | undefined
  /** number of the agent */
  readonly agent?: Count | undefined
  /** what is done: a verb of the Kubernetes API, or the method where it is no resource */
  readonly verb?: string | undefined
  /** API group of the resource; absent: the core group */
  readonly group?: string | undefined
  /** resource, in the plural */
  readonly resource?: string | undefined
  /** subresource, such as `exec` */
  readonly subresource?: string | undefined
  /** namespace of the object */
  readonly namespace?: string | undefined
  /** name of the object */
  readonly name?: string | undefined
  /** path, where it is no resource */
  readonly path?: string | undefined
  /** what its views show */
  readonly view?: string | undefined
  /** label selector of the request */
  readonly labelSelector?: string | undefined
  /** field selector of the request */
  readonly fieldSelector?: string | undefined
  /** program that an exec runs */
  readonly program?: string | undefined
  /** arguments that follow the program */
  readonly arguments?: Count | undefined
  /** address of the client */
  readonly address?: string | undefined
  /** program of the client, by its own account */
  readonly userAgent?: string | undefined
  /** name of the replica whose tunnel carries the request */
  readonly holder?: string | undefined
}

/** The user, or the CI job, whose credentials a request has. */
export interface SessionCaller {
  /** what let the caller in */
  readonly kind: 'ci_job' | 'session_cookie' | 'personal_access_token'
  /** number of the user */
  readonly id: Count
  /** user name */
  readonly name: string
  /** number of the project of a CI job */
  readonly project?: Count | undefined
  /** number of a CI job */
  readonly job?: Count | undefined
  /** number of the pipeline of a CI job */
  readonly pipeline?: Count | undefined
}

/**
 * Sessions that were ended.
 *
 * @command kas sessions end
 */
export interface EndedSessions extends OutputKind<'EndedSessions'> {
  /** replicas that answered */
  readonly replicas: readonly EndedAtReplica[]
  /** names of replicas that did not answer; sessions there may go on */
  readonly unreached: readonly string[]
}

/** Sessions that one replica ended. */
export interface EndedAtReplica {
  /** name of the replica */
  readonly name: string
  /** sessions that it ended */
  readonly ended: Count
}

/**
 * Knowledge of one replica about itself, other replicas and agents.
 *
 * @command kas status
 */
export interface Status extends OutputKind<'Status'> {
  /** the replica that was asked */
  readonly replica: OwnReplica
  /** all replicas that it knows, itself too; absent: it is alone by its configuration */
  readonly members?: readonly Member[] | undefined
  /** agents by number, of many the first */
  readonly agents: readonly KnownAgent[]
  /** agents that there are, with those that are not listed */
  readonly agentCount: Count
  /** callers whose calls this replica refused lately because they had more than their share; the latest first */
  readonly refusedCallers: readonly RefusedCaller[]
  /** lines of modules by the name of the module, each a label and a value; absent: no module has one */
  readonly modules?: Readonly<Record<string, readonly (readonly (string | number)[])[]>> | undefined
}

/** The replica that was asked. */
export interface OwnReplica {
  /** its name */
  readonly name: string
  /** version of kas */
  readonly version: string
  /** reason why it is not ready; absent: it is */
  readonly problem?: string | undefined
}

/** A replica, as the one that was asked knows it. */
export interface Member {
  /** its name */
  readonly name: string
  /** its instance: a start of the program */
  readonly instance: string
  /** `joining`, `serving`, or `leaving` while it stops */
  readonly state: string
  /** version of kas */
  readonly version: string
  /** where other replicas call it */
  readonly address?: string | undefined
  /** whether calls of the replica that was asked reach it */
  readonly reach: 'self' | 'reachable' | 'suspect' | 'unreachable' | 'down'
  /** calls that the replica that was asked has handed over to it and that run */
  readonly calls: Count
  /** whether a connection for gossip to it is open */
  readonly gossip: boolean
  /** living instances of its name: more than 1 is a fault */
  readonly instances: Count
  /** what it reports about itself */
  readonly row: MemberRow
}

/** Report of a replica about itself. */
export interface MemberRow {
  /** version of the report, which grows with each change */
  readonly version: Count
  /** connections of agentk to it */
  readonly connections: Count
  /** pods of agentk that have registered there */
  readonly pods: Count
  /** agents that are connected to it */
  readonly agents: Count
}

/** An agent, as a replica knows it. */
export interface KnownAgent {
  /** its number */
  readonly agent: Count
  /** replicas with connections of it */
  readonly holders: readonly Holder[]
  /** pods that have registered, at any replica */
  readonly pods: Count
  /** names of replicas, in the order in which its connections are placed */
  readonly rank: readonly string[]
  /** connections and pods; absent: without `--agent` */
  readonly entries?: readonly AgentEntry[] | undefined
}

/** A replica with connections of an agent. */
export interface Holder {
  /** name of the replica */
  readonly name: string
  /** connections of the agent to it */
  readonly connections: Count
}

/** A connection or a registration of a pod of agentk. */
export interface AgentEntry {
  /** name of the replica */
  readonly replica: string
  /** what it is */
  readonly kind: 'connection' | 'registration'
  /** name of the pod, by its own account; may be empty */
  readonly pod: string
  /** role of a connection */
  readonly role: string
  /** version of agentk; empty for connections */
  readonly version: string
  /** methods that a connection serves */
  readonly methods: readonly string[]
  /** begin */
  readonly since: Time
}

/** A caller, of one agent, whose calls were refused. */
export interface RefusedCaller {
  /** `user 7`, or `project 42` for its CI jobs */
  readonly caller: string
  /** number of the agent */
  readonly agent: Count
  /** tunnels that the caller used when the last call was refused */
  readonly tunnels: Count
  /** tunnels that there were */
  readonly allTunnels: Count
  /** watches among the caller's tunnels */
  readonly watches: Count
  /** calls that were refused */
  readonly refused: Count
  /** time of the last refusal */
  readonly lastAt: Time
}

/**
 * Which way a call for an agent would go.
 *
 * @command kas route
 */
export interface Route extends OutputKind<'Route'> {
  /** number of the agent */
  readonly agent: Count
  /** method of the call */
  readonly method: string
  /** name of the replica at which the call would come in */
  readonly entry: string
  /** what would happen; `wait`: the first tunnel that becomes idle gets the call */
  readonly verdict: 'own' | 'hand-over' | 'wait' | 'unreachable' | 'not-served' | 'not-connected'
  /** name of the replica whose tunnel it would be, or that is tried first */
  readonly by?: string | undefined
  /** reason of the verdict, a sentence */
  readonly reason: string
  /** tunnels of the replica where the call comes in */
  readonly own: OwnTunnels
  /** other holders of the agent, in the order in which they would be tried; then those that do not serve the method */
  readonly ways: readonly Candidate[]
  /** names of replicas, in the order in which the agent's connections are placed */
  readonly rank: readonly string[]
}

/** Tunnels of one agent at one replica. */
export interface OwnTunnels {
  /** tunnels of the agent */
  readonly tunnels: Count
  /** idle tunnels that serve the method */
  readonly idle: Count
  /** calls that wait for one */
  readonly waiting: Count
}

/** A replica to which a call may be handed over. */
export interface Candidate {
  /** its name */
  readonly name: string
  /** `joining`, `serving`, or `leaving` while it stops */
  readonly state: string
  /** whether calls of the replica that was asked reach it */
  readonly reach: 'reachable' | 'suspect' | 'unreachable' | 'down'
  /** calls that were handed over to it and run */
  readonly calls: Count
  /** whether a pod there serves the method */
  readonly serves: boolean
}
