import type { Count, OutputKind, Time } from '../command/output.ts'

/**
 * Long requests on 8154: watches, followed logs, execs, port-forwards and views.
 *
 * @command kas sessions
 */
export interface SessionList extends OutputKind<'SessionList'> {
  /** sessions at the replicas that answered */
  readonly items: readonly SessionDescription[]
  /** number of sessions, listed or not */
  readonly total: Count
  /** names of replicas that did not answer; their sessions are unknown */
  readonly unreached: readonly string[]
}

/** A session. Its fields are those of the access log (doc/reference/access-log.md). */
export interface SessionDescription {
  /** name of the replica that serves it */
  readonly replica: string
  /** UUID; the lines of the session in the access log have the same */
  readonly id: string
  /** start of the session */
  readonly since: Time
  /** user or CI job whose credentials the request has */
  readonly caller?: SessionCaller | undefined
  /** user that the request acts as in the cluster; absent: the agent itself */
  readonly as?: string | undefined
  /** names in the `Impersonate-*` headers of the caller */
  readonly askedAs?: readonly string[] | undefined
  /** number of the agent */
  readonly agent?: Count | undefined
  /** verb of the Kubernetes API; the HTTP method if the path names no resource */
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
  /** path, if it names no resource */
  readonly path?: string | undefined
  /** content of its first five views, such as `list deploy in shop` */
  readonly view?: string | undefined
  /** label selector of the request */
  readonly labelSelector?: string | undefined
  /** field selector of the request */
  readonly fieldSelector?: string | undefined
  /** program that an exec runs */
  readonly program?: string | undefined
  /** number of arguments of the program */
  readonly arguments?: Count | undefined
  /** address of the client */
  readonly address?: string | undefined
  /** `User-Agent` header of the client */
  readonly userAgent?: string | undefined
  /** name of the replica whose tunnel carries the request */
  readonly holder?: string | undefined
}

/** The user, or the CI job, whose credentials a request has. */
export interface SessionCaller {
  /** type of the credentials */
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
  /** names of replicas that did not answer; their sessions may still run */
  readonly unreached: readonly string[]
}

/** Sessions that one replica ended. */
export interface EndedAtReplica {
  /** name of the replica */
  readonly name: string
  /** number of sessions that it ended */
  readonly ended: Count
}

/**
 * Status of one replica, with the other replicas and the agents that it knows.
 *
 * @command kas status
 */
export interface Status extends OutputKind<'Status'> {
  /** the replica that was asked */
  readonly replica: OwnReplica
  /** all replicas that it knows, including itself; absent: it is configured without peers */
  readonly members?: readonly Member[] | undefined
  /** agents by number, at most 200 */
  readonly agents: readonly KnownAgent[]
  /** number of agents, listed or not */
  readonly agentCount: Count
  /** callers over their share whose calls this replica recently refused, the latest first */
  readonly refusedCallers: readonly RefusedCaller[]
  /** status lines by name of the module, each a label and a value; absent: no module has any */
  readonly modules?: Readonly<Record<string, readonly (readonly (string | number)[])[]>> | undefined
}

/** The replica that was asked. */
export interface OwnReplica {
  /** name of the replica */
  readonly name: string
  /** version of kas */
  readonly version: string
  /** reason why it is not ready; absent: it is ready */
  readonly problem?: string | undefined
}

/** A replica that the replica in `replica` knows. */
export interface Member {
  /** name of the replica */
  readonly name: string
  /** id of the instance; each start of kas is a new instance */
  readonly instance: string
  /** `joining`, `serving`, or `leaving` while it stops */
  readonly state: string
  /** version of kas */
  readonly version: string
  /** address at which other replicas call it; absent: unknown */
  readonly address?: string | undefined
  /** state of the link from the replica that was asked */
  readonly reach: 'self' | 'reachable' | 'suspect' | 'unreachable' | 'down'
  /** running calls that the replica that was asked has handed over to it */
  readonly calls: Count
  /** true if a gossip connection to it is open */
  readonly gossip: boolean
  /** number of living instances with this name; more than 1 is a fault */
  readonly instances: Count
  /** report of the replica about itself */
  readonly row: MemberRow
}

/** Report of a replica about itself. */
export interface MemberRow {
  /** version of the report; it grows with each change */
  readonly version: Count
  /** number of connections of agentk to it */
  readonly connections: Count
  /** number of pods of agentk that are registered there */
  readonly pods: Count
  /** number of agents that are connected to it */
  readonly agents: Count
}

/** An agent that the replica knows. */
export interface KnownAgent {
  /** number of the agent */
  readonly agent: Count
  /** replicas with connections of the agent */
  readonly holders: readonly Holder[]
  /** number of its pods that are registered, at any replica */
  readonly pods: Count
  /** names of the serving replicas, best first for connections of the agent */
  readonly rank: readonly string[]
  /** connections and pods of the agent; absent: `--agent` is not set */
  readonly entries?: readonly AgentEntry[] | undefined
}

/** A replica with connections of an agent. */
export interface Holder {
  /** name of the replica */
  readonly name: string
  /** number of connections of the agent to it */
  readonly connections: Count
}

/** A connection or a registration of a pod of agentk. */
export interface AgentEntry {
  /** name of the replica */
  readonly replica: string
  /** type of the entry */
  readonly kind: 'connection' | 'registration'
  /** name of the pod, as it reports itself; may be empty */
  readonly pod: string
  /** role of a connection */
  readonly role: string
  /** version of agentk; empty for connections */
  readonly version: string
  /** methods that a connection serves */
  readonly methods: readonly string[]
  /** start of the connection or registration */
  readonly since: Time
}

/** A caller whose calls to one agent were refused. */
export interface RefusedCaller {
  /** `user 7`, or `project 42` for CI jobs of a project */
  readonly caller: string
  /** number of the agent */
  readonly agent: Count
  /** number of tunnels that the caller used when the last call was refused */
  readonly tunnels: Count
  /** number of all tunnels of the agent at that time */
  readonly allTunnels: Count
  /** number of the caller's tunnels with a watch */
  readonly watches: Count
  /** number of refused calls */
  readonly refused: Count
  /** time of the last refusal */
  readonly lastAt: Time
}

/**
 * Route that a call to an agent would take.
 *
 * @command kas route
 */
export interface Route extends OutputKind<'Route'> {
  /** number of the agent */
  readonly agent: Count
  /** method of the call */
  readonly method: string
  /** name of the replica that would receive the call */
  readonly entry: string
  /** result of the routing; `wait`: the first tunnel that becomes idle gets the call */
  readonly verdict: 'own' | 'hand-over' | 'wait' | 'unreachable' | 'not-served' | 'not-connected'
  /** name of the replica whose tunnel would get the call, or that kas tries first; absent: none */
  readonly by?: string | undefined
  /** reason for the verdict, a sentence */
  readonly reason: string
  /** tunnels at the replica that receives the call */
  readonly own: OwnTunnels
  /** other replicas with tunnels of the agent, in the order of attempts; last, those that do not serve the method */
  readonly ways: readonly Candidate[]
  /** names of the serving replicas, best first for connections of the agent */
  readonly rank: readonly string[]
}

/** Tunnels of one agent at one replica. */
export interface OwnTunnels {
  /** number of tunnels of the agent */
  readonly tunnels: Count
  /** number of idle tunnels that serve the method */
  readonly idle: Count
  /** number of calls that wait for a tunnel */
  readonly waiting: Count
}

/** A replica to which a call may be handed over. */
export interface Candidate {
  /** name of the replica */
  readonly name: string
  /** `joining`, `serving`, or `leaving` while it stops */
  readonly state: string
  /** state of the link from the replica that was asked */
  readonly reach: 'reachable' | 'suspect' | 'unreachable' | 'down'
  /** running calls that were handed over to it */
  readonly calls: Count
  /** true if a pod there serves the method */
  readonly serves: boolean
}
