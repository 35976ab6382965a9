import type { AgentId } from '../../call/call.ts'
import { KasError } from '../../lib/errors.ts'
import type { ServerSession } from '../../proto/grpc/server-session.ts'

/** When a connection is sent a PING, and when it is given up. ms. */
export interface LivenessOptions {
  /** silence while a call runs, before a PING (doc/routing.md "A silent agent") */
  readonly busySilenceMs: number
  /** an unanswered PING makes the connection suspect: others are preferred */
  readonly suspectMs: number
  /** and after this it is lost */
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

/** A tunnel, as far as it ends while it is idle. */
export interface Renewable {
  /** @returns whether it was idle, and ends */
  endIdle(): boolean
}

/** One for all: an error that was made here would keep the whole session, as long as its stack is not read. */
const retirement = new KasError({ code: 'CANCELLED', detail: 'the connection retires' })

/** One connection of an agentk pod: how many calls run on it, and whether it lives. */
export class AgentConnection {
  readonly session: ServerSession
  /** where it comes from, `host:port` */
  readonly remoteAddress: string
  /** aborts when idle tunnels and polling streams should end with OK, to be opened again elsewhere */
  readonly retired: AbortSignal
  /** its agent goes to the replica that kas names (doc/agentk-placement.md) */
  movesByItself = false
  #wentAway = false
  /** how often idle tunnels were to end: one that carried a call meanwhile ends after it */
  renewals = 0
  readonly #retire = new AbortController()
  /** tunnels, idle or not, and whose they are */
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

  /** as its last PING found it; undefined: none was answered yet */
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

  /** @param usedUp - the agent opens another tunnel in place of the call's */
  callEnded(usedUp: boolean): void {
    this.#running--
    if (usedUp) this.#replacements++
  }

  /** A used-up tunnel may be replaced without counting against the token's rate. */
  spendReplacement(): boolean {
    if (this.#replacements === 0) return false
    this.#replacements--
    return true
  }

  /** A PING has gone unanswered for longer than a living connection takes. */
  isSuspect(now: number): boolean {
    return this.#ping !== undefined && now - this.#ping.sentAt >= this.#options.suspectMs
  }

  /** The tunnel of the agent is ended, if it is idle, when idle ones should be; until `offRenew`. */
  onRenew(agentId: AgentId, tunnel: Renewable): void {
    this.#tunnels.set(tunnel, agentId)
  }

  offRenew(tunnel: Renewable): void {
    this.#tunnels.delete(tunnel)
  }

  /**
   * Ends idle tunnels with OK: the agent opens others at once, and shows its token again.
   *
   * @param agentIds - of these agents; absent: of all that the connection carries
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

  /** As `renew`, of one: the others stay usable meanwhile. */
  renewOne(): void {
    for (const tunnel of this.#tunnels.keys()) if (tunnel.endIdle()) return
  }

  /** Ends what is idle with OK, and lets no new streams in: running calls go on. */
  retire(): void {
    this.#retire.abort(retirement)
    this.renew()
    this.session.close()
  }

  /** GOAWAY alone: the agent opens new streams on another connection; idle ones stay usable until `retire`. */
  goAway(): void {
    this.#wentAway = true
    this.session.close()
  }

  /** `goAway` was called: that the agent says GOAWAY too is its answer. */
  get wentAway(): boolean {
    return this.#wentAway
  }

  /**
   * Checks the connection; to be called a few times a second.
   *
   * @param lateMs - how late this call is: our own stall, which does not count against the connection
   */
  check(now: number, lateMs: number): void {
    const { bytesRead } = this.session
    if (bytesRead !== this.#bytesRead) {
      this.#bytesRead = bytesRead
      this.#receivedAt = now
      this.#ping = undefined // any byte proves life; the answer to the PING is then of no interest
      return
    }
    const { busySilenceMs, idleSilenceMs, busyPingTimeoutMs, idlePingTimeoutMs } = this.#options
    if (this.#ping) {
      this.#ping.sentAt += lateMs
      // a call does not wait for the patience of a PING that was sent before it came
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
        // one that waited in a queue says little: it counts for more only if the next ones do too
        this.#roundTripMs = Math.min(ms, 2 * (this.#roundTripMs ?? ms))
        if (this.#ping === ping) this.#ping = undefined
      },
      () => undefined, // the connection ended, which ends its calls
    )
  }
}
