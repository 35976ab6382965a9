import type { AgentId } from '../../call/call.ts'
import { KasError } from '../../lib/errors.ts'
import type { ServerSession } from '../../proto/grpc/server-session.ts'

/** Times after which a connection is sent a PING, or is given up. ms */
export interface LivenessOptions {
  /** silence while a call runs, before a PING (doc/internals/routing.md "A silent agent") */
  readonly busySilenceMs: number
  /** age of an unanswered PING from which other connections are preferred */
  readonly suspectMs: number
  /** age of an unanswered PING at which the connection is lost while a call runs */
  readonly busyPingTimeoutMs: number
  /** silence without calls, before a PING: under the 60 s of usual balancers (doc/reference/tunnel-protocol.md 2.4) */
  readonly idleSilenceMs: number
  readonly idlePingTimeoutMs: number
}

export const defaultLiveness: LivenessOptions = {
  busySilenceMs: 2000,
  suspectMs: 300,
  busyPingTimeoutMs: 3000,
  idleSilenceMs: 50_000,
  idlePingTimeoutMs: 20_000,
}

/** A tunnel that can be ended while it is idle. */
export interface Renewable {
  /** @returns true: it was idle, and ends */
  endIdle(): boolean
}

/** Shared by all connections: an error made for each would keep its whole session in memory until its stack is read. */
const retirement = new KasError({ code: 'CANCELLED', detail: 'the connection retires' })

/** One connection of an agentk pod: counts the calls that run on it, and checks whether it is alive. */
export class AgentConnection {
  readonly session: ServerSession
  /** address of the agent's end, `host:port` */
  readonly remoteAddress: string
  /** aborts when idle tunnels and polling streams should end with OK, to be opened again elsewhere */
  readonly retired: AbortSignal
  /** its agent moves by itself to the replica that kas names (doc/internals/agentk-placement.md) */
  movesByItself = false
  #wentAway = false
  /** how often idle tunnels were ended: a tunnel that carried a call at that time ends after it */
  renewals = 0
  readonly #retire = new AbortController()
  /** agent of each tunnel, idle or not */
  readonly #tunnels = new Map<Renewable, AgentId>()
  readonly #options: LivenessOptions
  #running = 0
  #roundTripMs: number | undefined
  #replacements = 0
  #bytesRead = 0
  #receivedAt: number
  #ping: { sentAt: number; timeoutMs: number } | undefined

  constructor(session: ServerSession, remoteAddress: string, now: number, options: LivenessOptions = defaultLiveness) {
    this.session = session
    this.remoteAddress = remoteAddress
    this.retired = this.#retire.signal
    this.#receivedAt = now
    this.#options = options
  }

  get running(): number {
    return this.#running
  }

  /** round trip of the last PING; undefined: none was answered yet */
  get roundTripMs(): number | undefined {
    return this.#roundTripMs
  }

  /** Sends a PING if no round trip is known. */
  measure(now: number): void {
    if (this.#roundTripMs === undefined && !this.#ping) this.#sendPing(now, this.#options.idlePingTimeoutMs)
  }

  callStarted(): void {
    this.#running++
  }

  /** @param usedUp - the tunnel is used up: the agent opens another one in its place */
  callEnded(usedUp: boolean): void {
    this.#running--
    if (usedUp) this.#replacements++
  }

  /** Spends a replacement of a used-up tunnel: the token's rate does not count it. @returns false: there is none */
  spendReplacement(): boolean {
    if (this.#replacements === 0) return false
    this.#replacements--
    return true
  }

  /** True if a PING has gone unanswered for longer than a living connection takes. */
  isSuspect(now: number): boolean {
    return this.#ping !== undefined && now - this.#ping.sentAt >= this.#options.suspectMs
  }

  /** Registers a tunnel of the agent: `renew` ends it if it is idle, until `offRenew`. */
  onRenew(agentId: AgentId, tunnel: Renewable): void {
    this.#tunnels.set(tunnel, agentId)
  }

  offRenew(tunnel: Renewable): void {
    this.#tunnels.delete(tunnel)
  }

  /**
   * Ends idle tunnels with OK: the agent opens others at once, and sends its token again.
   *
   * @param agentIds - agents whose tunnels end; absent: all agents of the connection
   */
  renew(agentIds?: ReadonlySet<AgentId>): void {
    let hasIdle = false
    for (const [tunnel, agentId] of this.#tunnels) {
      if (agentIds && !agentIds.has(agentId)) continue
      hasIdle = true
      tunnel.endIdle()
    }
    if (hasIdle || !agentIds) this.renewals++
  }

  /** Ends one idle tunnel as `renew` does; the others stay usable meanwhile. */
  renewOne(): void {
    for (const tunnel of this.#tunnels.keys()) if (tunnel.endIdle()) return
  }

  /** Ends idle tunnels and polling streams with OK, and lets no new streams in: running calls go on. */
  retire(): void {
    this.#retire.abort(retirement)
    this.renew()
    this.session.close()
  }

  /** Sends GOAWAY alone: the agent opens new streams on another connection. Idle tunnels stay usable until `retire`. */
  goAway(): void {
    this.#wentAway = true
    this.session.close()
  }

  /** True after `goAway`: a GOAWAY of the agent is then its answer. */
  get wentAway(): boolean {
    return this.#wentAway
  }

  /**
   * Checks the connection; must be called a few times a second.
   *
   * @param lateMs - how late this call is: a stall of this process does not count against the connection
   */
  check(now: number, lateMs: number): void {
    const { bytesRead } = this.session
    if (bytesRead !== this.#bytesRead) {
      this.#bytesRead = bytesRead
      this.#receivedAt = now
      this.#ping = undefined // any byte proves life; the answer to the PING no longer matters
      return
    }
    const { busySilenceMs, idleSilenceMs, busyPingTimeoutMs, idlePingTimeoutMs } = this.#options
    if (this.#ping) {
      this.#ping.sentAt += lateMs
      // a call waits no longer than its own timeout for a PING that was sent before it
      const patienceMs = this.#running > 0 ? busyPingTimeoutMs : idlePingTimeoutMs
      if (now - this.#ping.sentAt >= Math.min(this.#ping.timeoutMs, patienceMs)) this.session.destroy()
      return
    }
    const silence = now - this.#receivedAt
    if (this.#running > 0 && silence >= busySilenceMs) this.#sendPing(now, busyPingTimeoutMs)
    else if (silence >= idleSilenceMs) this.#sendPing(now, idlePingTimeoutMs)
  }

  #sendPing(now: number, timeoutMs: number): void {
    const ping = { sentAt: now, timeoutMs }
    this.#ping = ping
    this.session.ping().then(
      (ms) => {
        // a PING that waited in a queue says little: a round trip at most doubles with each PING
        this.#roundTripMs = Math.min(ms, 2 * (this.#roundTripMs ?? ms))
        if (this.#ping === ping) this.#ping = undefined
      },
      () => undefined, // the connection ended, which ends its calls
    )
  }
}
