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

/** gRPC's connection back-off. */
const reconnect = {
  firstMs: 1000,
  maxMs: 120_000,
  factor: 1.6,
  jitter: 0.2,
  around: true,
  resetMs: Number.POSITIVE_INFINITY,
}
/** A connection that ends sooner than this counts as a failed attempt. */
const shortLifeMs = 1000
/** The head of an HTTP/2 frame: who ends a connection with less has not spoken HTTP/2. */
const frameHeadBytes = 9
/** kas says its SETTINGS at once: without a byte by then it is frozen, though its machine took the connection. */
const firstBytesMs = 10_000
/**
 * nginx before 1.23 keeps the head of an answer to itself, by TLS, until more is said on the connection (its ticket 1743):
 * that is all that kas says on the one idle tunnel of a standby. nginx' answer to a PING brings it out. One alone is no
 * flood to any kas.
 */
const firstPingMs = 1000

const endedInSilence = new KasError({ code: 'UNREACHABLE', detail: endedBeforeKasSpoke })

export interface KasSessionsComponents {
  /** a connected duplex that carries HTTP/2 */
  readonly dial: (signal: AbortSignal) => Promise<Duplex>
  readonly log: Logger
  readonly clock: Clock
  readonly random: () => number
  /**
   * Asked when a dial has failed or a connection is lost; true: that is the end, which `onLost` reports once; where
   * else to go is the owner's choice. Else, or absent: kas is dialled again for ever.
   */
  readonly endsWhenLost?: () => boolean
  readonly onLost?: () => void
  /** of all connections; absent: none has wide windows */
  readonly windows?: WindowBudget
}

export interface KasSessionsOptions {
  readonly address: KasAddress
  readonly userAgent: string
}

/**
 * Keeps one HTTP/2 session to kas open, which many calls share. Lost, it is dialled again with gRPC's back-off; when
 * GOAWAY asks for it, a fresh one is dialled while the calls on the old one end.
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

  /** The session to open calls on, waiting for it. @throws the signal's reason */
  async session(signal: AbortSignal): Promise<ClientSession> {
    if (this.#current && !this.#current.draining) return this.#current
    try {
      if (!this.#isLost) return await abortable(this.#connect(), signal)
    } catch (error) {
      if (signal.aborted || !this.#isLost) throw error
    }
    // the owner knows, and stops this; without a wait callers would ask again and again meanwhile
    return abortable(new Promise<never>(() => undefined), AbortSignal.any([signal, this.#stopping.signal]))
  }

  /** kas has announced that it answers PINGs this often (doc/decisions/0006). */
  pingEvery(session: ClientSession, intervalMs: number): void {
    this.#sessions.get(session)?.start({ intervalMs, answerMs: intervalMs })
  }

  async start(): Promise<void> {
    this.#connect().catch(() => undefined) // only stopping rejects it
  }

  /** Dials no more, and says GOAWAY: our kas ends what waits for calls. */
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

  /** @throws the reason of stopping, only that */
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
      // inside a WebSocket HTTP/2 is in the clear, whatever is around it
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
      session.ping().catch(() => undefined) // it ended: `closed` says so
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

  /** GOAWAY came, or the connection ended. */
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
    this.#connect(waitMs).catch(() => undefined) // only stopping rejects it
  }

  #advise(error: unknown): { readonly next_step?: string } {
    return this.#advice.fields(nextStepToKas(error, this.#options.address))
  }

  /** Nothing more is dialled. */
  #end(): void {
    if (this.#isLost) return
    this.#isLost = true
    this.#components.onLost?.()
  }
}
