import type { AgentId } from '../call/call.ts'
import type { Caller } from '../call/caller.ts'
import type { ByteMeter } from '../lib/byte-budget.ts'
import type { KasError } from '../lib/errors.ts'
import type { Impersonation } from '../proto/http/http-message.ts'

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
