import type { Caller } from '../../../../call/caller.ts'
import type { Target } from '../../../../kubernetes/request/target.ts'
import type { Authorized } from '../authorization/authorize.ts'
import type { Credentials } from '../authorization/credentials.ts'
import type { RequestOutcome } from '../http/metrics.ts'
import type { RequestHead } from '../request/request-head.ts'
import type { RequestLife } from '../request-life.ts'

/** A request whose head and target were read. */
export interface AskedRequest {
  readonly life: RequestLife
  readonly head: RequestHead
  /** complete once the caller is let in */
  target: Target
}

/** A caller that may use the agent. */
export interface LetIn {
  readonly credentials: Credentials
  readonly letInAs: Authorized
  readonly caller: Caller
}

/**
 * Lets a request in, and then has `endpoint` serve it.
 *
 * @throws KasError the refusal, or the endpoint's error
 */
export type Admit<Admitted> = (request: AskedRequest, endpoint: Endpoint<Admitted>) => Promise<RequestOutcome>

/** Serves a path of 8154: one of kas' own, or all other paths, which go to the cluster. */
export interface Endpoint<Admitted = unknown> {
  /** below the prefix; a path that ends with `/` includes all paths below it */
  readonly path: string
  /** other methods are METHOD_NOT_ALLOWED; undefined: all methods are served */
  readonly methods: readonly string[] | undefined
  /** absent: a GET with a body is refused, because nothing reads it */
  readonly readsBodies?: true
  /** absent: `Impersonate-*` headers of callers are refused */
  readonly passesNames?: true
  /**
   * Reads the credentials of a caller if they are not in the request's head. `Admission.caller` uses them instead.
   * Absent, or undefined: it reads the head.
   *
   * @throws KasError CREDENTIALS_INVALID
   */
  credentials?(request: AskedRequest): Promise<Credentials> | undefined
  /** one of the three ways of `Admission` */
  admit(request: AskedRequest, endpoint: Endpoint<Admitted>): Promise<RequestOutcome>
  serve(admitted: Admitted, request: AskedRequest): Promise<RequestOutcome>
  /** serves a request for an upgrade; absent: `serve` does */
  upgrade?(admitted: Admitted, request: AskedRequest): Promise<RequestOutcome>
}

/** Admission of endpoints for callers of an agent. */
export type ForCallers = Pick<Endpoint<LetIn>, 'admit' | 'credentials'>
