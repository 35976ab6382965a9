import { type Caller, payerOf } from '../../../../call/caller.ts'
import { wholeTarget } from '../../../../kubernetes/request/target.ts'
import { systemClock } from '../../../../lib/clock.ts'
import { KasError } from '../../../../lib/errors.ts'
import type { Directory } from '../../../directory/directory.ts'
import type { ReplicaMemory } from '../../../memory/replica-memory.ts'
import type { AdmittedUser } from '../../../own-endpoint.ts'
import type { Arrivals } from '../../arrivals.ts'
import { type Authorized, authorize, callerNames } from '../authorization/authorize.ts'
import type { CallerKeys } from '../authorization/caller-keys.ts'
import { readCredentials } from '../authorization/credentials.ts'
import { refuseNames } from '../authorization/impersonation.ts'
import type { Sessions } from '../authorization/sessions.ts'
import { CallMemory, headBytes } from '../http/call-memory.ts'
import { noAgent } from '../http/connection.ts'
import type { RequestOutcome } from '../http/metrics.ts'
import type { RequestHead } from '../request/request-head.ts'
import { tokenEndWarning } from '../response/token-end-warning.ts'
import type { Admit, AskedRequest, Endpoint, LetIn } from './endpoint.ts'

export interface AdmissionComponents {
  readonly directory: Pick<Directory, 'grantJob' | 'grantUser'>
  readonly arrivals: Pick<Arrivals, 'admit'>
  readonly callerKeys: Pick<CallerKeys, 'of'>
  readonly memory: ReplicaMemory
  readonly sessions: Pick<Sessions, 'begin' | 'open'>
}

/** Form of a user's token, as for agents (doc/reference/tunnel-protocol.md 6.2); the agent may be 0: none. */
const userBearer = /^Bearer pat:\d{1,19}:(\S+)$/

/** The three ways to let a request in on 8154. */
export class Admission {
  readonly #components: AdmissionComponents

  constructor(components: AdmissionComponents) {
    this.#components = components
  }

  /**
   * Lets in callers who may use the agent that their credentials name. Each has a session until it is served.
   *
   * @throws KasError CREDENTIALS_INVALID, REPLICA_MEMORY_FULL, IDENTITY_REFUSED, TOO_MANY_STREAMS, and errors of
   *   `authorize`
   */
  readonly caller: Admit<LetIn> = async (request, endpoint) => {
    const { directory, arrivals, callerKeys, sessions } = this.#components
    const { life, head } = request
    const { exchange } = life
    const handedIn = endpoint.credentials?.(request)
    const credentials = handedIn ? await handedIn : readCredentials(head, request.target)
    life.calls(credentials.agentId)
    const ask = (signal: AbortSignal) =>
      authorize(directory, credentials, signal, { from: exchange.address, onKnown: (who) => life.knows(who) })
    const since = sessions.begin()
    const letInAs = await arrivals.admit(exchange.arrived, ask, exchange.signal)
    const caller = callerKeys.of(callerNames(letInAs.access))
    this.#count(request, letInAs, caller)
    if (request.target.long) request.target = life.asks(wholeTarget(request.target))
    if (head.askedAs.length > 0) refuseNames(letInAs.impersonation, { isOwn: !endpoint.passesNames })
    exchange.signal.throwIfAborted()
    life.opens(sessions, { credentials, letInAs, since })
    try {
      return await serveAdmitted(endpoint, { credentials, letInAs, caller }, request)
    } finally {
      life.settle()
    }
  }

  /**
   * Lets in users by their token alone; the agent that it names does not matter.
   *
   * @throws KasError CREDENTIALS_INVALID, and errors of `check`
   */
  user(check: (token: string) => Promise<AdmittedUser>): Admit<AdmittedUser> {
    return async (request, endpoint) => {
      const { life, head } = request
      const { exchange } = life
      exchange.upgrade?.refused()
      const token = userToken(head)
      const admitted = await this.#components.arrivals.admit(exchange.arrived, () => check(token), exchange.signal)
      const { id: userId, username } = admitted.user
      life.letIn({ agentId: noAgent, callerKey: `user ${userId}`, access: { via: 'pat', userId, username } })
      return await serveAdmitted(endpoint, admitted, request)
    }
  }

  /** Lets in senders that prove their right by what they send: the directory does not know them. */
  sender<Admitted>(check: (request: AskedRequest, signal: AbortSignal) => Promise<Admitted>): Admit<Admitted> {
    return async (request, endpoint) => {
      const { exchange } = request.life
      if (!endpoint.upgrade) exchange.upgrade?.refused()
      const checked = (signal: AbortSignal) => check(request, signal)
      const admitted = await this.#components.arrivals.admit(exchange.arrived, checked, exchange.signal)
      request.life.letIn({ agentId: noAgent, callerKey: endpoint.path, access: undefined })
      return await serveAdmitted(endpoint, admitted, request)
    }
  }

  /** Counts the memory of the call and its connection for the caller until both have ended, with room for an answer. */
  #count({ life, target }: AskedRequest, letInAs: Authorized, caller: Caller): void {
    const { memory } = this.#components
    const { exchange } = life
    const { access, impersonation, configProjectId, endsAt } = letInAs
    const { agentId } = access
    memory.tenants.learn(agentId, configProjectId)
    const payer = payerOf(caller)
    const enterShare = () => memory.enter('callers', agentId, payer)
    const warning = tokenEndWarning(endsAt, systemClock.now())
    life.letIn({ agentId, callerKey: caller.key, enterShare, access, as: impersonation?.username, warning })
    memory.expectAnswer(agentId, payer)
    const drop = (reason: KasError) => (exchange.isHandled ? exchange.cut() : life.end(reason))
    exchange.countBy(new CallMemory(enterShare(), headBytes(exchange.request, target.long?.parameters), drop))
  }
}

function userToken({ authorization }: Pick<RequestHead, 'authorization'>): string {
  const [, token] = userBearer.exec(authorization.length === 1 ? (authorization[0] as string) : '') ?? []
  if (token !== undefined) return token
  throw new KasError({ code: 'CREDENTIALS_INVALID', detail: 'Authorization header: expecting Bearer pat:<id>:<token>' })
}

/** Serves a request whose sender is let in. */
function serveAdmitted<Admitted>(
  endpoint: Endpoint<Admitted>,
  admitted: Admitted,
  request: AskedRequest,
): Promise<RequestOutcome> {
  const { upgrade } = request.life.exchange
  if (upgrade && endpoint.upgrade) return endpoint.upgrade(admitted, request)
  upgrade?.refused()
  return endpoint.serve(admitted, request)
}
