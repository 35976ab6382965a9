import type { Duplex } from 'node:stream'
import { Advice } from '../../lib/advice.ts'
import { Backoff } from '../../lib/backoff.ts'
import type { Clock } from '../../lib/clock.ts'
import { KasError } from '../../lib/errors.ts'
import { Listeners } from '../../lib/listeners.ts'
import type { Logger } from '../../lib/log.ts'
import { pause } from '../../lib/pause.ts'
import type { Service } from '../../lib/service.ts'
import { abortable } from '../../lib/signals.ts'
import { ClientSession } from '../../proto/grpc/client-session.ts'
import type { WindowBudget } from '../../proto/grpc/window-budget.ts'
import type { KasAddress } from './kas-address.ts'
import { KeepAlive, stockTimes } from './keep-alive.ts'
import { endedBeforeKasSpoke, nextStepToKas } from './next-step.ts'

/** gRPC's connection back-off, in ms. */
const reconnect = {
  firstMs: 1000,
  maxMs: 120_000,
  factor: 1.6,
  jitter: 0.2,
  around: true,
  resetMs: Number.POSITIVE_INFINITY,
}
/** A connection that ends sooner than this counts as a failed attempt. ms */
const shortLifeMs = 1000
/** Bytes of the head of an HTTP/2 frame: a peer that sends less has not spoken HTTP/2. */
const frameHeadBytes = 9
/** kas sends SETTINGS at once: without a byte by then it is frozen, although its machine accepts connections. ms */
const firstBytesMs = 10_000
/**
 * Delay of the first PING, in ms. Over TLS, nginx before 1.23 keeps the head of an answer back until more is sent on
 * the connection (its ticket 1743). The head is all that kas sends on the one idle tunnel of a standby. nginx' answer
 * to a PING brings it out. A single PING is no flood for any kas.
 */
const firstPingMs = 1000

const endedInSilence = new KasError({ code: 'UNREACHABLE', detail: endedBeforeKasSpoke })

export interface KasSessionsComponents {
  /** returns a connected duplex that carries HTTP/2 */
  readonly dial: (signal: AbortSignal) => Promise<Duplex>
  readonly log: Logger
  readonly clock: Clock
  readonly random: () => number
  /**
   * Called when a dial has failed or a connection is lost. True: nothing more is dialled, `onLost` reports it once, and
   * the owner chooses what follows. False or absent: kas is dialled again for ever.
   */
  readonly endsWhenLost?: () => boolean
  readonly onLost?: () => void
  /** shared by all connections; absent: none has wide windows */
  readonly windows?: WindowBudget
}

export interface KasSessionsOptions {
  readonly address: KasAddress
  readonly userAgent: string
}

/**
 * Keeps one HTTP/2 session to kas open, which many calls share. A lost session is dialled again with gRPC's back-off.
 * After GOAWAY a new one is dialled, while the calls on the old one end.
 */
export class KasSessions implements Service {
  readonly #components: KasSessionsComponents
  readonly #options: KasSessionsOptions
  readonly #stopping = new AbortController()
  readonly #sessions = new Map<ClientSession, KeepAlive>()
  readonly #onSession = new Listeners<ClientSession>()
  readonly #backoff: Backoff
  readonly #advice = new Advice()
  #current: ClientSession | undefined
  #connecting: Promise<ClientSession> | undefined
  #isLost = false

  constructor(components: KasSessionsComponents, options: KasSessionsOptions) {
    this.#components = components
    this.#options = options
    this.#backoff = new Backoff(components, reconnect)
  }

  get connected(): boolean {
    return this.#current !== undefined
  }

  /** Calls `listener` with each new session. */
  onSession(listener: (session: ClientSession) => void): void {
    this.#onSession.add(listener)
  }

  /** Waits for the session to open calls on. @throws the reason of the signal, or of the stop */
  async session(signal: AbortSignal): Promise<ClientSession> {
    if (this.#current && !this.#current.draining) return this.#current
    try {
      if (!this.#isLost) return await abortable(this.#connect(), signal)
    } catch (error) {
      if (signal.aborted || !this.#isLost) throw error
    }
    // the owner stops this; without a wait callers would ask again and again meanwhile
    return abortable(new Promise<never>(() => undefined), AbortSignal.any([signal, this.#stopping.signal]))
  }

  /** Starts PINGs as often as kas has announced that it answers them (doc/decisions/0006). */
  pingEvery(session: ClientSession, intervalMs: number): void {
    this.#sessions.get(session)?.start({ intervalMs, answerMs: intervalMs })
  }

  async start(): Promise<void> {
    this.#connect().catch(() => undefined) // it rejects at the end only: a stop, or a lost replica
  }

  /** Dials no more, and sends GOAWAY, so that kas ends idle tunnels. */
  goAway(): void {
    this.#stopping.abort(new KasError({ code: 'CANCELLED', detail: 'agentk is stopping' }))
    for (const session of this.#sessions.keys()) session.close()
  }

  /** Lets running calls end until `patience` aborts, then ends every connection. */
  async stop(patience?: AbortSignal): Promise<void> {
    this.goAway()
    const sessions = [...this.#sessions.keys()]
    const closed = Promise.all(sessions.map((session) => session.closed))
    if (patience) await abortable(closed, patience).catch(() => undefined)
    for (const session of sessions) session.destroy()
    await closed
    await this.#connecting?.catch(() => undefined) // a dial that was in progress
  }

  #connect(waitMs = 0): Promise<ClientSession> {
    this.#connecting ??= this.#dialUntilConnected(waitMs).finally(() => {
      this.#connecting = undefined
    })
    return this.#connecting
  }

  /** @throws the reason of the stop; if `endsWhenLost`, the error of the dial */
  async #dialUntilConnected(firstWaitMs: number): Promise<ClientSession> {
    const { clock, log } = this.#components
    const { signal } = this.#stopping
    if (firstWaitMs > 0) await pause(firstWaitMs, clock, signal)
    for (;;) {
      try {
        return await this.#dial(signal)
      } catch (error) {
        signal.throwIfAborted()
        if (this.#components.endsWhenLost?.()) {
          log.info({ error, net_address: this.#options.address.authority }, 'Cannot connect to a replica of kas')
          this.#end()
          throw error
        }
        const waitMs = Math.round(this.#backoff.next())
        log.warn(
          { error, net_address: this.#options.address.authority, wait_ms: waitMs, ...this.#advise(error) },
          'Cannot connect to kas, trying again',
        )
        await pause(waitMs, clock, signal)
        signal.throwIfAborted()
      }
    }
  }

  async #dial(signal: AbortSignal): Promise<ClientSession> {
    signal.throwIfAborted()
    const duplex = await this.#components.dial(signal)
    if (!signal.aborted) return this.#adopt(duplex)
    duplex.destroy()
    throw signal.reason
  }

  #adopt(duplex: Duplex): ClientSession {
    const { clock, log } = this.#components
    const { address, userAgent } = this.#options
    const { authority } = address
    const bornAt = clock.now()
    const session = ClientSession.over(duplex, {
      authority,
      // HTTP/2 inside a WebSocket is cleartext, even if TLS is around it
      scheme: address.scheme === 'grpcs' ? 'https' : 'http',
      userAgent,
      windows: this.#components.windows,
      onError: (error) =>
        log.warn({ error, net_address: authority, ...this.#advise(error) }, 'The connection to kas failed'),
    })
    const keepAlive = new KeepAlive(session, { times: stockTimes, clock })
    this.#sessions.set(session, keepAlive)
    this.#current = session
    keepAlive.start()
    const cancelFirstBytes = clock.after(firstBytesMs, () => session.bytesRead === 0 && session.destroy())
    const cancelFirstPing = clock.after(firstPingMs, () => {
      session.ping().catch(() => undefined) // it ended: `closed` reports it
    })
    session.onDraining(() => this.#leave(session, clock.now() - bornAt))
    void session.closed.then(() => {
      cancelFirstBytes()
      cancelFirstPing()
      keepAlive.stop()
      this.#sessions.delete(session)
    })
    log.info({ net_address: authority }, 'Connected to kas')
    this.#onSession.notify(session)
    return session
  }

  /** Leaves a session after GOAWAY, or after its connection has ended. */
  #leave(session: ClientSession, livedMs: number): void {
    if (this.#current !== session) return
    this.#current = undefined
    session.close() // it ends with its last call
    if (this.#stopping.signal.aborted) return
    if (session.destroyed && this.#components.endsWhenLost?.()) {
      this.#end()
      return
    }
    const { log } = this.#components
    const isShort = livedMs < shortLifeMs
    const advice: { next_step?: string } =
      isShort && session.bytesRead < frameHeadBytes ? this.#advise(endedInSilence) : {}
    const fields = { net_address: this.#options.address.authority, ...advice }
    log[advice.next_step ? 'warn' : 'info'](fields, 'Leaving a connection to kas, opening another')
    if (!isShort) {
      this.#backoff.reset()
      this.#advice.forget()
    }
    const waitMs = !isShort ? 0 : Math.round(this.#backoff.next())
    this.#connect(waitMs).catch(() => undefined) // it rejects at the end only: a stop, or a lost replica
  }

  #advise(error: unknown): { readonly next_step?: string } {
    return this.#advice.fields(nextStepToKas(error, this.#options.address))
  }

  /** Ends all dialling, and reports the loss once. */
  #end(): void {
    if (this.#isLost) return
    this.#isLost = true
    this.#components.onLost?.()
  }
}
