import type { Rate } from '../../../../lib/rate-limit.ts'
import { defaultUnauthenticated, type UnauthenticatedOptions } from '../../unauthenticated-connections.ts'

/**
 * Limits of doc/reference/tunnel-protocol.md 6.5, 6.7 and 6.8. Bodies for clusters and the time of a request have none.
 */
export interface KubernetesLimits {
  /** bytes of a request's head */
  readonly maxHeadBytes: number
  /** memory at a replica for heads of unknown callers: bytes over 64 KiB, and lines over 500. bytes */
  readonly maxUnknownHeadBytes: number
  /** time for a request's head to come. ms */
  readonly headTimeoutMs: number
  /** after the listen grace: time for a first request on a new connection. ms */
  readonly arrivalMs: number
  /** bounds of connections without an authorized request, each of which may use 64 KiB for a head */
  readonly unauthenticated: UnauthenticatedOptions
  /** idle time of a connection between requests. ms */
  readonly keepAliveMs: number
  /**
   * idle connections that are kept for one agent's callers, counted for the caller that was let in first: about 90 KB
   * each. Beyond this number the longest idle one is closed.
   */
  readonly maxKeptPerAgent: number
  /** time for the client of kas' own WebSocket to take bytes; connections to pods wait without limit. ms */
  readonly ownSocketWriteTimeoutMs: number
  /**
   * requests to kas' own endpoints about one agent (`own_requests_about_agent`), until their answers are taken. Each
   * keeps body and answer in memory.
   */
  readonly maxOwnRequests: number
  /** WebSockets of kas' own endpoints about one agent (`sockets_about_agent`) */
  readonly maxOwnSockets: number
  /** bytes of a body that one of kas' own endpoints reads */
  readonly maxOwnBodyBytes: number
  /** time for all of such a body to come, once reading begins. ms */
  readonly ownBodyTimeoutMs: number
  /** requests whose signature is checked at once (`signed_requests`); each keeps a piece of its body in memory */
  readonly maxSignedRequests: number
  /** requests of one network whose signature is checked at once */
  readonly maxSignedRequestsOfNetwork: number
  /** requests that wait for the check of a signature (`signed_requests`) */
  readonly maxWaitingSignedRequests: number
  /** wait after which such a request takes the place of one of the network with most. ms */
  readonly signedTurnPatienceMs: number
  /** time for a body to come if each network has its share and others wait. ms */
  readonly crowdedSignedBodyMs: number
  /** bytes per second, over `crowdedSignedBodyMs`: slower bodies make room first */
  readonly minSignedBodyRate: number
  /** bytes of a signed body, which is read piece by piece */
  readonly maxSignedBodyBytes: number
  /** time for all of a signed body to come, including the wait for a turn. ms */
  readonly signedBodyTimeoutMs: number
  /** bytes of an answer of kas' own endpoints */
  readonly maxOwnAnswerBytes: number
  /** rate of all such answers about one agent, in bytes: the next answer waits */
  readonly ownAnswerRate: Rate
  /** time for a client to take all of such an answer; else it is cut. ms */
  readonly ownAnswerTimeoutMs: number
  /** watches that run at once over one WebSocket */
  readonly maxWatches: number
  /** bytes of one message that asks for a watch */
  readonly maxWatchMessageBytes: number
  /** bytes of incomplete events of all watches of one WebSocket, and so also of one event */
  readonly maxWatchPartialBytes: number
  /**
   * bytes of incomplete events of all WebSockets that watch one agent (`watch_bytes_about_agent`): a caller can open
   * any number of them, and read none
   */
  readonly maxWatchAgentBytes: number
  /** bytes that wait for the client of a WebSocket before its clusters have to wait */
  readonly maxWatchUnsentBytes: number
  /** pause between two pings of a WebSocket's client, which is cut if it sends nothing between them. ms */
  readonly watchPingMs: number
  /** time for the client of a WebSocket to close after kas did. ms */
  readonly watchCloseMs: number
}

/** TLS and a head take about 90 KB each; answers to pipelined requests go out one after another anyway. */
const unauthenticated: UnauthenticatedOptions = {
  ...defaultUnauthenticated,
  maxIdlePerAddress: 500,
  maxCheckedPerConnection: 1,
}

export const defaultKubernetesLimits: KubernetesLimits = {
  maxHeadBytes: 1024 * 1024 + 4096, // Go's http.Server reads as much with a limit of 1 MiB
  maxUnknownHeadBytes: 16 * 1024 * 1024,
  headTimeoutMs: 10_000,
  arrivalMs: 5000, // as in Go's http.Server.Shutdown
  unauthenticated,
  keepAliveMs: 60_000,
  maxKeptPerAgent: 500,
  ownSocketWriteTimeoutMs: 20_000,
  maxOwnRequests: 16,
  maxOwnSockets: 256, // as many as pages that show one agent; TLS takes 100 KiB of each: 10 % of 256 MiB
  maxOwnBodyBytes: 1024 * 1024,
  ownBodyTimeoutMs: 30_000,
  maxSignedRequests: 256, // a slow body takes 64 KiB of a socket, and no CPU time
  maxSignedRequestsOfNetwork: 8,
  maxWaitingSignedRequests: 200,
  signedTurnPatienceMs: 1000, // a hook takes ms, and its sender waits for 10 s
  crowdedSignedBodyMs: 5000,
  minSignedBodyRate: 4096,
  maxSignedBodyBytes: 25 * 1024 * 1024, // hooks of GitHub have no more
  signedBodyTimeoutMs: 30_000,
  maxOwnAnswerBytes: 4 * 1024 * 1024,
  ownAnswerRate: { perSecond: 2 * 1024 * 1024, burst: 16 * 1024 * 1024 },
  ownAnswerTimeoutMs: 60_000,
  maxWatches: 100, // a page of GitLab has 3 to 8 (doc/reference/gitlab-contract.md 3.5)
  maxWatchMessageBytes: 64 * 1024,
  maxWatchPartialBytes: 8 * 1024 * 1024, // an object of etcd has at most 1.5 MiB, somewhat more in JSON
  maxWatchAgentBytes: 32 * 1024 * 1024,
  maxWatchUnsentBytes: 256 * 1024,
  watchPingMs: 30_000, // balancers cut connections that are idle for 60 s
  watchCloseMs: 1000,
}
