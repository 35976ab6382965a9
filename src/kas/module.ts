import type { AgentId, Forward, Metadata } from '../call/call.ts'
import type { Caller } from '../call/caller.ts'
import type { ByteMeter } from '../lib/byte-budget.ts'
import type { Clock } from '../lib/clock.ts'
import type { Away, KasError } from '../lib/errors.ts'
import type { Logger } from '../lib/log.ts'
import type { GrpcType, Registry } from '../lib/metrics.ts'
import type { Rate } from '../lib/rate-limit.ts'
import type { Service } from '../lib/service.ts'
import type { Tracer } from '../lib/tracing/tracer.ts'
import type { RowRegistrations } from '../membership/membership.ts'
import type { Impersonation } from '../proto/http/http-message.ts'
import type { UnaryMethods } from '../proto/unary.ts'
import type { ObserveCall } from './access-log/call-record.ts'
import type { Agent } from './agent.ts'
import type { AgentConfigs } from './agent-config/agent-configs.ts'
import type { Directory } from './directory/directory.ts'
import type { Gitlab } from './directory/gitlab.ts'
import type { LocalDirectory } from './directory/local-directory.ts'
import type { Usage } from './directory/usage.ts'
import type { Leads } from './peers/leads.ts'
import type { Peers } from './peers/peers.ts'
import type { GitalyCoordinates } from './repositories/gitaly/gitaly-coordinates.ts'
import type { Pushes } from './repositories/local-pushes.ts'
import type { Repositories } from './repositories/repositories.ts'
import type { SharedPolls } from './repositories/shared-polls.ts'
import type { Trees } from './repositories/tree.ts'

/** A feature of kas: what it serves on each port. Each stands in its own folder of `modules`. */
export interface KasModule {
  /** heading in `kas status` */
  readonly name: string
  /** 8150, by `/package.Service/Method` */
  readonly agentMethods?: Readonly<Record<string, AgentMethod>>
  /** 8153 */
  readonly railsMethods?: UnaryMethods
  /** 8155: what peers call */
  readonly replicaMethods?: UnaryMethods
  /** 8154 */
  readonly endpoints?: readonly OwnEndpoint[]
  /** 8154 */
  readonly userEndpoints?: readonly UserEndpoint[]
  /** 8154 */
  readonly signedEndpoints?: readonly SignedEndpoint[]
  /** 8154: sees each request whose head can be read, whoever asks, and each watch over a WebSocket, too */
  readonly observe?: ObserveCall
  /** said to each agentk that takes hints: a module of its own asks for them by name (`kas.hasFeature`) */
  readonly features?: readonly string[]
  /** they start once the peers are known, and stop after the servers */
  readonly services?: readonly Service[]
  /** lines of `kas status` */
  status?(): readonly StatusLine[]
}

export interface AgentMethod {
  /** for metrics */
  readonly type: GrpcType
  /** of one message of the agent's, which is decoded as a whole; absent: as of gRPC, for what is passed on */
  readonly maxMessageBytes?: number
  /** calls that one agent may have open at a replica; absent: as many as all its calls together */
  readonly maxPerAgent?: number
  readonly rate: MethodRate
  /** Its calls wait while the directory is away; their token is watched. */
  readonly patient: boolean
  /** @returns trailers */
  // biome-ignore lint/suspicious/noConfusingVoidType: a method without trailers returns nothing
  serve(call: AgentCall): Promise<Metadata | void>
}

/**
 * What one agent may take of a replica by way of a method, over all its calls: a unit is some 0.1 ms of the event loop at
 * the worst. What is over waits, calls and their messages, so that the agent sends slower; a call that would wait for
 * too long is refused. A stock agent never waits (doc/operations.md "What an agent may call, and how often").
 */
export interface MethodRate extends Rate {
  /** units of each call that begins, of each message that an agent sends in it, and of 1024 bytes of that */
  readonly cost: { readonly call: number; readonly message: number; readonly kib: number }
}

/** A call on 8150 by an agent who has been let in. */
export interface AgentCall {
  readonly agent: Agent
  /** by which the directory is asked */
  readonly token: string
  readonly metadata: Metadata
  /** each is paid for by the agent, and comes no sooner */
  readonly messages: AsyncIterable<Uint8Array>
  /**
   * Charges the agent for work beside its messages, in units of the method's rate.
   *
   * @param atMostMs - it waits no longer: what is owed then delays what the agent does next; absent: until it has paid
   * @returns undefined to go on, or a promise that the agent has paid; it rejects with the signal's reason
   */
  spend(units: number, atMostMs?: number): Promise<void> | undefined
  /** aborts when the call has ended, or is cut */
  readonly signal: AbortSignal
  /** aborts when the call should end with OK, for the agent to open it on a newer connection */
  readonly retired: AbortSignal
  sendMetadata(metadata: Metadata): void
  /** @returns undefined to go on, or a promise of room */
  send(message: Uint8Array): Promise<void> | undefined
  /** @throws KasError once the token is void, or another agent's; not while nobody can say */
  stillValid(): Promise<void>
  /** Calls `listener` after a change that may concern the agent, until the returned function is called. */
  onDirectoryChange(listener: () => void): () => void
}

/** A path that kas itself serves on 8154, to callers who may use the agent: a few at once about each. */
export interface OwnEndpoint {
  /** below the prefix: `/echo` */
  readonly path: string
  /** others: METHOD_NOT_ALLOWED */
  readonly methods: readonly string[]
  /** Its answers may have some MiB: few are made at once. */
  readonly isLong?: true
  /** @throws KasError, answered as for other requests */
  serve(request: OwnRequest): Promise<OwnAnswer>
  /** What a request gets that asks for an upgrade; absent: what others get. */
  readonly upgrade?: OwnUpgrade
}

/** WebSockets of an endpoint: a few hundred at once about each agent, of all endpoints together. */
export interface OwnUpgrade {
  /** the sub-protocol; who does not offer it gets UPGRADE_REQUIRED */
  readonly protocol: string
  /** bytes of one message of the client */
  readonly maxMessageBytes: number
  /** what the agent has too many of where one more is refused: 'WebSockets for echoes of this agent' */
  readonly what: string
  /** the first message says what is shown: the access log has the begin from then on */
  readonly beginsByMessage?: boolean
  /** The client has its WebSocket. */
  open(opened: OpenedSocket): OwnConversation
}

export interface OpenedSocket extends OwnCaller {
  readonly socket: OwnSocket
  /** What the WebSocket carries has failed: counted as a request that fails, and logged in these words. */
  failed(error: KasError, sentence: string): void
}

/** The client's end of a WebSocket; one that takes nothing for too long, or does not answer pings, is cut. */
export interface OwnSocket {
  /** Undefined: go on; a promise: when the client has taken it, or has left. */
  send(text: string): Promise<void> | undefined
  /** Resolves when the client's connection has taken all of it, or the client has left. */
  sent(text: string): Promise<void>
  /** Nothing of the client is read before `resume`. */
  pause(): void
  resume(): void
  /** @param code - of `lib/close-codes.ts` */
  close(code: number, reason: string): void
  /**
   * Counts what is kept for the client, and not sent yet, as its caller's part of the replica's memory. Without room the
   * one who holds most ends, which may be this WebSocket.
   */
  readonly memory: ByteMeter
}

/** What an endpoint does with a WebSocket. None of it may throw: that ends the WebSocket. */
export interface OwnConversation {
  /** Of the client; none comes once the WebSocket is being closed. */
  message(data: Buffer, isBinary: boolean): void
  /** The caller is somebody else in the cluster from now on; absent: he may no longer. */
  changed?(impersonation: Impersonation | undefined): void
  /** The caller may no longer: the client may learn why here, then the WebSocket is closed, if it is not yet. */
  withdraw(reason: KasError): void
  /** The WebSocket is closed, whoever did it: the last call. */
  closed(): void
}

/** A path that kas itself serves on 8154 to users, by their token alone, whichever agent they name with it. */
export interface UserEndpoint {
  /** below the prefix: `/agents` */
  readonly path: string
  /** others: METHOD_NOT_ALLOWED */
  readonly methods: readonly string[]
  /**
   * Whose token it is.
   *
   * @throws KasError USER_UNAUTHORIZED, answered as for other requests
   */
  admit(token: string): Promise<AdmittedUser>
}

/** Paths that kas itself serves on 8154 to whoever signs what he sends, whom nobody knows otherwise: a few at once. */
export interface SignedEndpoint {
  /** below the prefix, and what follows it: `/hooks/git/` */
  readonly path: string
  /** others: METHOD_NOT_ALLOWED */
  readonly methods: readonly string[]
  /**
   * Decides by the head alone whether the body is read.
   *
   * @returns what reads it, once it has a turn; that throws KasError CREDENTIALS_INVALID, and what the body throws
   * @throws KasError CREDENTIALS_INVALID: the request is refused at once, and takes no turn
   */
  open(request: SignedRequest): Promise<(body: AsyncIterable<Uint8Array>) => Promise<OwnAnswer>>
}

export interface SignedRequest {
  /** what follows in the path */
  readonly name: string
  /** by its name in lower case; undefined: there is none */
  header(name: string): string | undefined
}

/** Who he is, and what answers him. */
export interface AdmittedUser {
  readonly user: { readonly id: bigint; readonly username: string }
  answer(signal: AbortSignal): Promise<OwnAnswer>
}

/** Who may use the agent. */
export interface OwnCaller {
  readonly agentId: AgentId
  /** for shares: the same at all replicas */
  readonly caller: Pick<Caller, 'key' | 'userKey'>
  /** in the cluster the caller acts as this user; undefined: as the agent itself */
  readonly impersonation: Impersonation | undefined
  /** absent: a test asks */
  readonly who?: {
    readonly userId: bigint
    /** it is a job that the user has started */
    readonly isJob: boolean
    readonly address: string | undefined
  }
  /** Has the access log say what is shown, beside the path. */
  readonly shows?: (text: string) => void
}

export interface OwnRequest extends OwnCaller {
  readonly method: string
  /** decoded, without what is meant for kas */
  readonly query: ReadonlyMap<string, readonly string[]>
  /** read once; throws MESSAGE_TOO_LARGE, BODY_TOO_SLOW, or the reason of `signal` */
  readonly body: AsyncIterable<Uint8Array>
  /** the caller has left, or may no longer */
  readonly signal: AbortSignal
}

export interface OwnAnswer {
  readonly status: number
  readonly mediaType: string
  /** at most 4 MiB: a longer one is INTERNAL */
  readonly body: Uint8Array
}

export type StatusLine = readonly [label: string, value: string | number]

/** What a module is given. */
export interface KasHost {
  readonly directory: Directory
  /** undefined: there is a directory file */
  readonly gitlab: Gitlab | undefined
  /** undefined: there is GitLab */
  readonly localDirectory: LocalDirectory | undefined
  readonly agentConfig: Pick<AgentConfigs, 'newest' | 'refreshed' | 'followed' | 'allFollowed' | 'onChange' | 'file'>
  readonly repositories: HostRepositories
  /** those that this replica knows of */
  readonly pushes: Pushes
  /** of agents' pods, at all replicas; undefined: this replica is alone */
  readonly registrations: RowRegistrations | undefined
  readonly peers: Peers
  readonly leads: Pick<Leads, 'leads' | 'onChange' | 'passOn'>
  /** to agents, whichever replica holds them */
  readonly forward: Forward
  /** whether any pod of the agent serves the method; undefined: none is known to be connected */
  readonly serves: (agentId: AgentId, method: string) => boolean | undefined
  /** agents that have been connected to no replica for so long that nobody need wait; undefined: it is not so, or not known */
  readonly away: (agentId: AgentId) => Away | undefined
  readonly usage: Usage
  readonly tracer: Tracer
  readonly clock: Clock
  readonly register: Registry
  readonly log: Logger
}

export interface HostRepositories extends Pick<Repositories, 'poke'> {
  /** of projects that agents may read, at any ref */
  readonly trees: Pick<Repositories, 'head' | 'seenAt' | 'lastPoll' | 'refresh' | 'onMove'> &
    Pick<Trees, 'files' | 'blobs' | 'contains'>
  /** Calls `listener` with projects whose branch was found moved by a poll alone, until the returned function is called. */
  onFound(listener: (projectId: bigint) => void): () => void
  /** Absent: of the replicas that hold an agent one polls, as `leads` says. */
  readonly sharedPolls?: SharedPolls
  /** A file with the secret of the hooks of the project's Git server; undefined: it has none. Absent: no project has. */
  hookSecretFile?(projectId: bigint): string | undefined
  /** The file of one of the projects that have such a secret; undefined: none has. */
  someHookSecretFile?(): string | undefined
  /**
   * Full paths of the files below a folder of the repository with these coordinates. Absent: no repository has any.
   *
   * @throws KasError REPOSITORY_FAILED, or the signal's reason
   */
  filesAt?(coordinates: GitalyCoordinates, folder: string, signal: AbortSignal): Promise<readonly string[]>
}
