import type { Caller } from '../../../../call/caller.ts'
import type { Target } from '../../../../kubernetes/request/target.ts'
import type { Authorized } from '../authorization/authorize.ts'
import type { Credentials } from '../authorization/credentials.ts'
import type { RequestOutcome } from '../http/metrics.ts'
import type { RequestHead } from '../request/request-head.ts'
import type { RequestLife } from '../request-life.ts'

/** A request whose head and target are read. */
export interface AskedRequest {
  readonly life: RequestLife
  readonly head: RequestHead
  /** its query is whole once its caller is let in */
  target: Target
}

/** A caller who may use the agent. */
export interface LetIn {
  readonly credentials: Credentials
  readonly letInAs: Authorized
  readonly caller: Caller
}

/**
 * Lets in whoever has sent a request, and then has `endpoint` serve it.
 *
 * @throws KasError: nobody is let in, or what the endpoint throws
 */
export type Admit<Admitted> = (request: AskedRequest, endpoint: Endpoint<Admitted>) => Promise<RequestOutcome>

/** What there is at a path of 8154: an endpoint of kas' own, or the cluster, which has all other paths. */
export interface Endpoint<Admitted = unknown> {
  /** below the prefix; one that ends with `/` stands for all that is below it */
  readonly path: string
  /** others: METHOD_NOT_ALLOWED; undefined: all are served */
  readonly methods: readonly string[] | undefined
  /** absent: a GET with a body is refused, for nobody would read it */
  readonly readsBodies?: true
  /** absent: `Impersonate-*` headers of callers are refused */
  readonly passesNames?: true
  /**
   * Reads the credentials of a caller where they are not in the head of the request: `Admission.caller` takes them in place of
   * those. Absent, or undefined: it reads the head.
   *
   * @throws KasError CREDENTIALS_INVALID
   */
  credentials?(request: AskedRequest): Promise<Credentials> | undefined
  /** one of the three of `Admission` */
  admit(request: AskedRequest, endpoint: Endpoint<Admitted>): Promise<RequestOutcome>
  serve(admitted: Admitted, request: AskedRequest): Promise<RequestOutcome>
  /** serves a request that asks for an upgrade; absent: it gets what others get */
  upgrade?(admitted: Admitted, request: AskedRequest): Promise<RequestOutcome>
}

/** How endpoints for callers of an agent let them in. */
export type ForCallers = Pick<Endpoint<LetIn>, 'admit' | 'credentials'>

/** Serves a request whose sender is let in. */
export function serveAdmitted<Admitted>(
  endpoint: Endpoint<Admitted>,
  admitted: Admitted,
  request: AskedRequest,
): Promise<RequestOutcome> {
  const { upgrade } = request.life.exchange
  if (upgrade && endpoint.upgrade) return endpoint.upgrade(admitted, request)
  upgrade?.refused()
  return endpoint.serve(admitted, request)
}
