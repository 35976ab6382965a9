import type { Rate } from '../../../../lib/rate-limit.ts'
import { defaultUnauthenticated, type UnauthenticatedOptions } from '../../unauthenticated-connections.ts'

/** doc/reference/tunnel-protocol.md 6.5, 6.7 and 6.8. There is no limit on bodies for clusters, nor on the time that one request takes. */
export interface KubernetesLimits {
  /** bytes of a request's head */
  readonly maxHeadBytes: number
  /** of all heads at a replica whose callers are not known yet: their bytes over 64 KiB, and their lines over 500 */
  readonly maxUnknownHeadBytes: number
  /** for a request's head to come, in ms */
  readonly headTimeoutMs: number
  /** after the listen grace: for a first request on a connection taken just before, in ms */
  readonly arrivalMs: number
  /** connections without an authorized request yet, each of which may hold 64 KiB of a head */
  readonly unauthenticated: UnauthenticatedOptions
  /** a connection may be idle between requests, in ms */
  readonly keepAliveMs: number
  /**
   * connections that are kept so of one agent's callers, those that were let in on them first: about 90 KB each. The
   * longest idle is closed for the next
   */
  readonly maxKeptPerAgent: number
  /** a client of a WebSocket of kas' own may take nothing, in ms; what runs in a pod waits for its client without an end */
  readonly ownSocketWriteTimeoutMs: number
  /** requests to endpoints of kas' own about one agent, until their answers are taken; each holds body and answer */
  readonly maxOwnRequests: number
  /** WebSockets of endpoints of kas' own about one agent */
  readonly maxOwnSockets: number
  /** bytes of a body that kas reads itself, for an endpoint of its own */
  readonly maxOwnBodyBytes: number
  /** for all of such a body to come, once it is read. ms */
  readonly ownBodyTimeoutMs: number
  /** requests whose signature is checked at once, and those of one network among them; each holds a piece of its body */
  readonly maxSignedRequests: number
  readonly maxSignedRequestsOfNetwork: number
  /** that wait for it */
  readonly maxWaitingSignedRequests: number
  /** one that has waited for so long takes the place of one of the network that has most. ms */
  readonly signedTurnPatienceMs: number
  /** where each network has its share and others wait: for a body to come. ms */
  readonly crowdedSignedBodyMs: number
  /** bytes a second, over `crowdedSignedBodyMs`: a body that is slower makes room first */
  readonly minSignedBodyRate: number
  /** bytes of a body that is signed, and is read piece by piece */
  readonly maxSignedBodyBytes: number
  /** for all of it to come, the wait for a turn included. ms */
  readonly signedBodyTimeoutMs: number
  /** bytes of the answer of an endpoint of its own */
  readonly maxOwnAnswerBytes: number
  /** of all such answers about one agent, in bytes: the next one waits */
  readonly ownAnswerRate: Rate
  /** for a client to take all of such an answer; else it is cut. ms */
  readonly ownAnswerTimeoutMs: number
  /** watches that run at once over one WebSocket */
  readonly maxWatches: number
  /** bytes of one message that asks for a watch */
  readonly maxWatchMessageBytes: number
  /** bytes of events that have not come whole yet, of all watches of one WebSocket; so an event is not longer either */
  readonly maxWatchPartialBytes: number
  /** the same of all WebSockets that watch one agent: who has it can open any number of them, and read none */
  readonly maxWatchAgentBytes: number
  /** bytes that wait for the client of a WebSocket before the clusters have to wait */
  readonly maxWatchUnsentBytes: number
  /** between two pings of the client of a WebSocket; one that has sent nothing since the last is cut. ms */
  readonly watchPingMs: number
  /** for the client of a WebSocket to close once it was asked to, in ms */
  readonly watchCloseMs: number
}

export const defaultKubernetesLimits: KubernetesLimits = {
  maxHeadBytes: 1024 * 1024 + 4096, // as Go's http.Server reads with a limit of 1 MiB
  maxUnknownHeadBytes: 16 * 1024 * 1024,
  headTimeoutMs: 10_000,
  arrivalMs: 5000, // as Go's http.Server.Shutdown
  // TLS and a head: about 90 KB each; of pipelined requests the answers follow one another anyhow
  unauthenticated: { ...defaultUnauthenticated, maxIdlePerAddress: 500, maxCheckedPerConnection: 1 },
  keepAliveMs: 60_000,
  maxKeptPerAgent: 500,
  ownSocketWriteTimeoutMs: 20_000,
  maxOwnRequests: 16,
  maxOwnSockets: 500, // as many as pages that show one agent
  maxOwnBodyBytes: 1024 * 1024,
  ownBodyTimeoutMs: 30_000,
  maxSignedRequests: 256, // a slow body holds 64 KiB of a socket, and no time of a processor
  maxSignedRequestsOfNetwork: 8,
  maxWaitingSignedRequests: 200,
  signedTurnPatienceMs: 1000, // a hook is a matter of ms, and its sender waits for 10 s
  crowdedSignedBodyMs: 5000,
  minSignedBodyRate: 4096,
  maxSignedBodyBytes: 25 * 1024 * 1024, // a hook of GitHub has no more
  signedBodyTimeoutMs: 30_000,
  maxOwnAnswerBytes: 4 * 1024 * 1024,
  ownAnswerRate: { perSecond: 2 * 1024 * 1024, burst: 16 * 1024 * 1024 },
  ownAnswerTimeoutMs: 60_000,
  maxWatches: 100, // a page of GitLab has 3 to 8 (doc/reference/gitlab-contract.md 3.5)
  maxWatchMessageBytes: 64 * 1024,
  maxWatchPartialBytes: 8 * 1024 * 1024, // an object of etcd has at most 1.5 MiB, in JSON somewhat more
  maxWatchAgentBytes: 32 * 1024 * 1024,
  maxWatchUnsentBytes: 256 * 1024,
  watchPingMs: 30_000, // balancers cut what is silent for 60 s
  watchCloseMs: 1000,
}
