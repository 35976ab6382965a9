import type { Forward } from '../../../../call/call.ts'
import { safetyOf } from '../../../../call/safety.ts'
import { kubernetesApiMethod } from '../../../../proto/http/http-over-grpc.ts'
import type { Directory } from '../../../directory/directory.ts'
import { accessLost } from '../authorization/authorization-rechecks.ts'
import { type Access, authorize } from '../authorization/authorize.ts'
import { isByCookie } from '../authorization/credentials.ts'
import { type FrontRedirect, redirectTo } from '../front-redirect.ts'
import type { RequestOutcome } from '../http/metrics.ts'
import { bodilessMessages } from '../http/request-messages.ts'
import type { Relay } from '../relay.ts'
import { isSentToGitlab } from '../request/passed-cookies.ts'
import { nameClient, nameHost, passCookies } from '../request/request-head.ts'
import { headEncoder, sentMessages } from '../sent-head.ts'
import type { ResumedWatches } from '../watch/resume/resumed-watches.ts'
import { watchQuestion } from '../watch/resume/watch-question.ts'
import type { AskedRequest, Endpoint, ForCallers, LetIn } from './endpoint.ts'

export interface ClusterEndpointComponents {
  readonly forward: Forward
  readonly directory: Pick<Directory, 'grantJob' | 'grantUser'>
  readonly watches: Pick<ResumedWatches, 'open'>
  readonly relay: Pick<Relay, 'run'>
  /** absent: this replica forwards all requests itself */
  readonly redirect?: Pick<FrontRedirect, 'locationFor'> | undefined
  readonly countAccess: (access: Access) => void
}

export interface ClusterEndpointOptions {
  /** host of `gitlab.external_url`; undefined: there is no GitLab */
  readonly gitlabHost: string | undefined
  /** kas' entry in the Via header */
  readonly via: string
}

/** Accepted age of the directory's answer when a watch is resumed. ms */
const reopenedAccessMs = 45_000

/** Forwards requests to the cluster of their agent, and its answers back (doc/reference/tunnel-protocol.md 6). */
export class ClusterEndpoint implements Endpoint<LetIn> {
  readonly path = '/'
  readonly methods = undefined
  readonly readsBodies = true
  readonly passesNames = true
  readonly admit: ForCallers['admit']
  readonly credentials: NonNullable<ForCallers['credentials']>
  readonly #components: ClusterEndpointComponents
  readonly #options: ClusterEndpointOptions

  constructor(
    components: ClusterEndpointComponents,
    options: ClusterEndpointOptions,
    { admit, credentials = () => undefined }: ForCallers,
  ) {
    this.#components = components
    this.#options = options
    this.admit = admit
    this.credentials = credentials
  }

  upgrade(letIn: LetIn, request: AskedRequest): Promise<RequestOutcome> {
    return this.serve(letIn, request)
  }

  async serve({ credentials, letInAs, caller }: LetIn, { life, head, target }: AskedRequest): Promise<RequestOutcome> {
    const { exchange } = life
    const { request } = exchange
    const { directory, countAccess, redirect, relay, watches, forward } = this.#components
    const { gitlabHost, via } = this.#options
    const method = request.method as string
    const body = head.contentLength !== 0
    const safety = safetyOf({ method, path: target.path, upgrade: head.upgrade.length > 0, body })
    const watch = watchQuestion({ method, safety }, target, head)
    const mayRedirect = !body && !watch // a watch goes on here when its holder is lost
    const location = mayRedirect ? redirect?.locationFor(request, credentials.agentId) : undefined
    if (location !== undefined) return await redirectTo(location, exchange)
    countAccess(letInAs.access)
    const call = {
      agentId: credentials.agentId,
      method: kubernetesApiMethod,
      metadata: life.metadata,
      safety,
      caller,
      isWatch: exchange.asked === 'watch',
      isLog: exchange.asked === 'log',
      observer: life,
      signal: exchange.signal,
    }
    const { impersonation } = letInAs
    const isOfGitlab = isSentToGitlab(head, gitlabHost) // before untrusted headers are removed
    if (exchange.forwardedAddress !== undefined) nameClient(head, exchange.forwardedAddress)
    nameHost(head, exchange.calledAs)
    if (!isByCookie(credentials) && !isOfGitlab) passCookies(head)
    const encode = headEncoder(request, head, target, { impersonation, auditId: life.auditId, via })
    const mayGoOn = async (signal: AbortSignal) => {
      const question = { maxAgeMs: reopenedAccessMs }
      const reason = await accessLost(letInAs, () => authorize(directory, credentials, signal, question))
      if (!reason) return
      life.end(reason)
      throw reason
    }
    life.forwarding()
    const reply = watch
      ? await watches.open(
          watch,
          { ...call, messagesOf: (query) => bodilessMessages(encode(query)) },
          { mayGoOn, kept: (reason) => exchange.endWithReason?.(reason) },
        )
      : await forward({ ...call, messages: sentMessages(exchange, head, encode(target.query)) })
    life.delivered()
    return await relay.run(life, reply)
  }
}
