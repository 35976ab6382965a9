import type { AgentId } from '../call/call.ts'
import type { Caller } from '../call/caller.ts'
import type { ByteMeter } from '../lib/byte-budget.ts'
import type { KasError } from '../lib/errors.ts'
import type { Impersonation } from '../proto/http/http-message.ts'

/** Endpoints of kas itself on 8154: for callers of an agent, for users, and for signed requests. */
export type KasEndpoint = OwnEndpoint | UserEndpoint | SignedEndpoint

/** A path that kas itself serves on 8154, to callers who may use the agent: a few at once about each. */
export interface OwnEndpoint {
  /** path below the prefix: `/echo` */
  readonly path: string
  /** allowed methods; others: METHOD_NOT_ALLOWED */
  readonly methods: readonly string[]
  /** Its answers may have some MiB: few are made at once. */
  readonly isLong?: true
  /** bounds of its body, if it is a long one; absent: those of all endpoints */
  readonly body?: LongBody
  /** @throws KasError, answered as for other requests */
  serve(request: OwnRequest): Promise<OwnAnswer>
  /** WebSocket for a request with an upgrade; absent: it is served as other requests */
  readonly upgrade?: OwnUpgrade
}

/** Bounds of a long body. Time in which nothing reads it does not count. */
export interface LongBody {
  readonly maxBytes: number
  /** lowest rate: a slower body is BODY_TOO_SLOW */
  readonly minBytesPerSecond: number
  /** longest wait for its bytes that the rate does not cover. ms */
  readonly slackMs: number
}

/** WebSockets of an endpoint: a few hundred at once about each agent, over all endpoints. */
export interface OwnUpgrade {
  /** the sub-protocol; a client that does not offer it gets UPGRADE_REQUIRED */
  readonly protocol: string
  /** bytes of one message of the client */
  readonly maxMessageBytes: number
  /** the counted things, for the error of a refused one: 'WebSockets for echoes of this agent' */
  readonly what: string
  /** true: the first message says what is shown, and the access log writes the begin after it */
  readonly beginsByMessage?: boolean
  /** Begins a conversation, once the client has its WebSocket. */
  open(opened: OpenedSocket): OwnConversation
}

export interface OpenedSocket extends OwnCaller {
  readonly socket: OwnSocket
  /** Counts the WebSocket as a failed request, and logs the error with this sentence. */
  failed(error: KasError, sentence: string): void
}

/** The client's end of a WebSocket; it is cut if the client reads nothing for too long, or does not answer pings. */
export interface OwnSocket {
  /** Returns undefined: go on; or a promise, which resolves once the client has taken it, or has left. */
  send(text: string): Promise<void> | undefined
  /** Resolves once the client's connection has taken all of it, or the client has left. */
  sent(text: string): Promise<void>
  /** Stops reading from the client until `resume`. */
  pause(): void
  resume(): void
  /** @param code - one of `lib/close-codes.ts` */
  close(code: number, reason: string): void
  /**
   * Counts unsent data of the client as its caller's part of the replica's memory. If there is no room, the caller with
   * most ends, which may be this WebSocket.
   */
  readonly memory: ByteMeter
}

/** An endpoint's part in a WebSocket. An error of a method ends the WebSocket. */
export interface OwnConversation {
  /** called for a message of the client; not once the WebSocket is being closed */
  message(data: Buffer, isBinary: boolean): void
  /** Called if the caller has another identity in the cluster from now on; absent: it counts as lost access. */
  changed?(impersonation: Impersonation | undefined): void
  /**
   * Called if the caller has lost access: the client may get the reason here, then the WebSocket is closed, if it is
   * not yet.
   */
  withdraw(reason: KasError): void
  /** Called last, once the WebSocket is closed from either side. */
  closed(): void
}

/**
 * A path that kas itself serves on 8154 to users by their token only. The agent that the token names does not matter.
 */
export interface UserEndpoint {
  /** path below the prefix: `/agents` */
  readonly path: string
  /** allowed methods; others: METHOD_NOT_ALLOWED */
  readonly methods: readonly string[]
  /**
   * Finds the user of the token.
   *
   * @throws KasError USER_UNAUTHORIZED, answered as for other requests
   */
  admit(token: string): Promise<AdmittedUser>
}

/**
 * Paths that kas itself serves on 8154 to senders of signed requests, which it does not know otherwise: a few at once.
 */
export interface SignedEndpoint {
  /** path below the prefix, without the name that follows it: `/hooks/git/` */
  readonly path: string
  /** allowed methods; others: METHOD_NOT_ALLOWED */
  readonly methods: readonly string[]
  /**
   * Decides whether the body is read, by the head only.
   *
   * @returns function that reads the body once it has a turn; it throws KasError CREDENTIALS_INVALID, and errors of the
   *   body
   * @throws KasError CREDENTIALS_INVALID: the request is refused at once, and takes no turn
   */
  open(request: SignedRequest): Promise<(body: AsyncIterable<Uint8Array>) => Promise<OwnAnswer>>
}

export interface SignedRequest {
  /** rest of the path */
  readonly name: string
  /** Returns a header by its name in lower case; undefined: there is none. */
  header(name: string): string | undefined
}

/** An admitted user, with the answer for it. */
export interface AdmittedUser {
  readonly user: { readonly id: bigint; readonly username: string }
  answer(signal: AbortSignal): Promise<OwnAnswer>
}

/** A caller who may use the agent. */
export interface OwnCaller {
  readonly agentId: AgentId
  /** keys for shares: the same at all replicas */
  readonly caller: Pick<Caller, 'key' | 'userKey'>
  /** user that the caller impersonates in the cluster; undefined: the agent itself */
  readonly impersonation: Impersonation | undefined
  /** absent: a test asks */
  readonly who?: {
    readonly userId: bigint
    /** true: a job that the user has started */
    readonly isJob: boolean
    /** project of the job, or projects in which the grant gives the user a role; it may name groups instead */
    readonly projectIds: readonly bigint[]
    readonly address: string | undefined
  }
  /** Adds to the access log, beside the path, what is shown. */
  readonly shows?: (text: string) => void
}

export interface OwnRequest extends OwnCaller {
  /** in the access log, and in the audit log of the cluster */
  readonly id: string
  readonly method: string
  /** decoded, without parameters for kas itself */
  readonly query: ReadonlyMap<string, readonly string[]>
  /** read once; throws MESSAGE_TOO_LARGE, BODY_TOO_SLOW, or the reason of `signal` */
  readonly body: AsyncIterable<Uint8Array>
  /** Counts what the endpoint keeps of the body, as the caller's part of the replica's memory, until the answer. */
  readonly memory: ByteMeter
  /** aborts once the caller has left, or has lost access */
  readonly signal: AbortSignal
}

export interface OwnAnswer {
  readonly status: number
  readonly mediaType: string
  /** at most 4 MiB: a longer body is INTERNAL */
  readonly body: Uint8Array
}
