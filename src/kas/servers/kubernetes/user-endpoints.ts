import type { Target } from '../../../kubernetes/request/target.ts'
import { KasError } from '../../../lib/errors.ts'
import { abortable } from '../../../lib/signals.ts'
import type { UserEndpoint } from '../../own-endpoint.ts'
import type { Arrivals } from '../arrivals.ts'
import { noAgent } from './http/connection.ts'
import type { KubernetesLimits } from './http/kubernetes-limits.ts'
import type { RequestOutcome } from './http/metrics.ts'
import type { RequestHead } from './request/request-head.ts'
import type { RequestLife } from './request-life.ts'
import { type ContentHead, checkBodiless, checkMethod, contentHeaders } from './response/own-answer.ts'

export interface UserEndpointsComponents {
  readonly endpoints: readonly UserEndpoint[]
  readonly arrivals: Pick<Arrivals, 'admit'>
}

export interface UserCall {
  readonly life: RequestLife
  readonly head: Pick<RequestHead, 'authorization'>
  /** of the answer, beside what it consists of */
  readonly headers: readonly string[]
}

/** As for agents (doc/reference/tunnel-protocol.md 6.2), but the agent may be 0: none. */
const bearer = /^Bearer pat:\d{1,19}:(\S+)$/

/** What kas answers to a user by himself on 8154. */
export class UserEndpoints {
  readonly #components: UserEndpointsComponents
  readonly #options: Pick<KubernetesLimits, 'ownAnswerTimeoutMs'>

  constructor(components: UserEndpointsComponents, options: Pick<KubernetesLimits, 'ownAnswerTimeoutMs'>) {
    this.#components = components
    this.#options = options
  }

  /** Undefined: the request is about an agent. @throws KasError METHOD_NOT_ALLOWED, BAD_REQUEST */
  find(method: string, { path }: Pick<Target, 'path'>, head: ContentHead): UserEndpoint | undefined {
    const endpoint = this.#components.endpoints.find((each) => each.path === path)
    if (!endpoint) return undefined
    checkMethod(method, endpoint.methods)
    checkBodiless(method, head)
    return endpoint
  }

  /** @throws KasError CREDENTIALS_INVALID, and what the endpoint throws */
  async serve(endpoint: UserEndpoint, { life, head, headers }: UserCall): Promise<RequestOutcome> {
    const { exchange } = life
    exchange.upgrade?.refused()
    const { signal } = exchange
    const token = tokenOf(head)
    const admit = () => endpoint.admit(token)
    const { user, answer } = await this.#components.arrivals.admit(exchange.arrived, admit, signal)
    const access = { via: 'pat', userId: user.id, username: user.username } as const
    life.letIn({ agentId: noAgent, callerKey: `user ${user.id}`, access })
    const { status, mediaType, body } = await abortable(answer(signal), signal)
    const all = [...headers, ...contentHeaders(mediaType)]
    const { ownAnswerTimeoutMs } = this.#options
    return (await exchange.answerInPieces(status, all, body, ownAnswerTimeoutMs)) ? 'endpoint' : 'cut'
  }
}

function tokenOf({ authorization }: Pick<RequestHead, 'authorization'>): string {
  const [, token] = bearer.exec(authorization.length === 1 ? (authorization[0] as string) : '') ?? []
  if (token !== undefined) return token
  throw new KasError({ code: 'CREDENTIALS_INVALID', detail: 'Authorization header: expecting Bearer pat:<id>:<token>' })
}
