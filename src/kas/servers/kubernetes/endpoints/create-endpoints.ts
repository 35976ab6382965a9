import type { AgentId, Forward } from '../../../../call/call.ts'
import { type Clock, monotonicClock, systemClock } from '../../../../lib/clock.ts'
import type { Logger } from '../../../../lib/log.ts'
import { SharedRooms } from '../../../../lib/shared-room.ts'
import type { AccessLog } from '../../../access-log/access-log.ts'
import type { ObserveCall } from '../../../access-log/call-record.ts'
import { noUsage, type Usage } from '../../../directory/usage.ts'
import type { KasEndpoint } from '../../../own-endpoint.ts'
import type { FrontRedirect } from '../front-redirect.ts'
import type { KubernetesLimits } from '../http/kubernetes-limits.ts'
import type { KubernetesMetrics } from '../http/metrics.ts'
import { proxyUsage } from '../proxy-usage.ts'
import { Relay } from '../relay.ts'
import type { RequestLife } from '../request-life.ts'
import type { ResponseRules } from '../response/response-head.ts'
import { ResumedWatches } from '../watch/resume/resumed-watches.ts'
import { WatchApi } from '../watch/watch-api.ts'
import type { WebSocketTokens } from '../watch/websocket-tokens.ts'
import { Admission, type AdmissionComponents } from './admission.ts'
import { ClusterEndpoint } from './cluster-endpoint.ts'
import { Endpoints } from './endpoints.ts'
import { FrontCheck } from './front-check.ts'
import { OwnEndpoints } from './own-endpoints.ts'
import { SignedEndpoints } from './signed-endpoints.ts'
import { userEndpoint } from './user-endpoint.ts'
import { tokenCredentials, watchEndpoints } from './watch-endpoints.ts'

export interface EndpointsComponents extends AdmissionComponents {
  readonly forward: Forward
  readonly metrics: KubernetesMetrics
  /** counts admitted users; absent: they are not counted */
  readonly usage?: Usage
  /** absent: requests are not logged */
  readonly accessLog?: AccessLog
  readonly clock?: Clock
  readonly log: Logger
  /** absent: neither tokens nor watches over WebSocket are served */
  readonly webSocketTokens?: WebSocketTokens
  /** absent: nothing is answered here beside tokens and watches */
  readonly endpoints?: readonly KasEndpoint[]
  /** true for the id of a replica of this kas, by which `kas doctor` checks a front; absent: no front can be checked */
  readonly isReplica?: (instance: string) => boolean
  /** absent: this replica forwards all requests itself */
  readonly redirect?: Pick<FrontRedirect, 'locationFor'>
  /** observes each watch over a WebSocket */
  readonly observe: ObserveCall
  /** headers of kas' own answers */
  readonly headers: (life: RequestLife) => string[]
}

export interface EndpointsOptions {
  /** `gitlab-kas/<version>/<commit>` */
  readonly product: string
  /** host of `gitlab.external_url`; undefined: there is no GitLab */
  readonly gitlabHost: string | undefined
  readonly limits: KubernetesLimits
  /** rules for answers of clusters, beside those that always apply */
  readonly responses: Omit<ResponseRules, 'via'>
}

/** Creates all endpoints of 8154, in the order in which they are matched. */
export function createEndpoints(components: EndpointsComponents, options: EndpointsOptions): Endpoints {
  const { product, limits, gitlabHost } = options
  const {
    endpoints = [],
    forward,
    metrics,
    webSocketTokens,
    isReplica,
    usage = noUsage,
    clock = monotonicClock,
  } = components
  const via = `gRPC/1.0 ${product}`
  const admission = new Admission(components)
  const callers = { admit: admission.caller, credentials: tokenCredentials(webSocketTokens) }
  const kept = new SharedRooms<AgentId>({ name: 'watch_bytes_about_agent', limit: limits.maxWatchAgentBytes })
  const watches = new ResumedWatches({ forward, onResumed: metrics.watchResumed, kept }, limits)
  const parts = { clock: systemClock, ...components, admission, kept, watches, countAccess: proxyUsage(usage) }
  const relay = new Relay({ ...options.responses, via })
  const cluster = new ClusterEndpoint({ ...parts, relay }, { gitlabHost, via }, callers)
  const watchApi = new WatchApi(parts, { product, limits, via })
  const { watch, token } = watchEndpoints({ ...components, watches: watchApi }, callers)
  const signed = new SignedEndpoints({ ...parts, clock }, limits)
  const own = new OwnEndpoints({ ...parts, clock }, { product, limits })
  const endpointOf = (each: KasEndpoint) => {
    if ('serve' in each) return own.create(each, callers)
    return 'admit' in each ? userEndpoint(each, parts, limits) : signed.create(each)
  }
  return new Endpoints({
    own: [
      ...(isReplica ? [new FrontCheck({ ...parts, isReplica }, { product, limits })] : []),
      watch,
      ...endpoints.map(endpointOf),
    ],
    token,
    cluster,
  })
}
