import type { SecureContext } from 'node:tls'
import type { Metadata } from '../../../call/call.ts'
import type { Clock } from '../../../lib/clock.ts'
import { KasError } from '../../../lib/errors.ts'
import { abortable, linkedController } from '../../../lib/signals.ts'
import type { ClientSession } from '../../../proto/grpc/client-session.ts'
import { dialGitaly } from './dial-gitaly.ts'
import { type CallQueue, type CallTurn, type GitalyCallLimit, isMoreUrgent } from './gitaly-call-limit.ts'

export interface GitalyServerComponents {
  /** limit over all Gitalys */
  readonly globalLimit: GitalyCallLimit
  /** limit of this Gitaly */
  readonly limit: GitalyCallLimit
  readonly clock: Clock
  readonly secureContext: () => Promise<SecureContext>
  /** called when a call ended, with its error if it failed */
  answered(method: string, error: KasError | undefined, seconds: number): void
}

export interface GitalyServerOptions {
  readonly userAgent: string
  readonly connectTimeoutMs: number
  /** the longest that a call may take, from its turn to the end of its answer, in ms */
  readonly callTimeoutMs: number
}

export interface GitalyCall {
  /** `/package.Service/Method` */
  readonly method: string
  readonly request: Uint8Array
  /** not shared with another call */
  readonly turn: CallTurn
  /** called for each attempt: the metadata's token expires */
  readonly metadata: () => Metadata
}

/** Attempts of a call. All calls are reads: a repetition does no harm. */
const maxAttempts = 2

/** One Gitaly, by its address. Calls share one connection, which the first call opens. */
export class GitalyServer {
  readonly #address: string
  readonly #components: GitalyServerComponents
  readonly #options: GitalyServerOptions
  readonly #stopped = new AbortController()
  #session: Promise<ClientSession> | undefined
  #calls = 0

  constructor(address: string, components: GitalyServerComponents, options: GitalyServerOptions) {
    this.#address = address
    this.#components = components
    this.#options = options
  }

  get inUse(): boolean {
    return this.#calls > 0
  }

  /**
   * Yields the messages of an answer. A call whose connection was lost before the first message is repeated once.
   *
   * @throws KasError REPOSITORY_FAILED if Gitaly was not reached, or not in time; STATUS from Gitaly; else the signal's
   * reason
   */
  async *call(call: GitalyCall, signal: AbortSignal): AsyncGenerator<Uint8Array, void, void> {
    const { limit, globalLimit } = this.#components
    const ended = linkedController(signal, this.#stopped.signal)
    this.#calls += 1
    try {
      await limit.enter(call.turn, ended.signal)
      await globalLimit.enter(call.turn, ended.signal)
      yield* this.#attempts(call, ended.signal)
    } finally {
      this.#calls -= 1
      ended.dispose()
    }
  }

  /** Moves a waiting call to a more urgent queue. */
  hurry(turn: CallTurn, queue: CallQueue): void {
    if (!isMoreUrgent(queue, turn.queue)) return
    turn.queue = queue
    this.#components.limit.hurry(turn)
    this.#components.globalLimit.hurry(turn)
  }

  /** Ends the connection and the calls on it; a later call throws SHUTTING_DOWN. */
  stop(): void {
    this.#stopped.abort(new KasError({ code: 'SHUTTING_DOWN' }))
    this.#session?.then(
      (session) => session.destroy(),
      () => undefined,
    )
  }

  async *#attempts(call: GitalyCall, signal: AbortSignal): AsyncGenerator<Uint8Array, void, void> {
    const deadline = this.#components.clock.now() + this.#options.callTimeoutMs
    for (let left = maxAttempts - 1; ; left--) {
      let begun = false
      try {
        for await (const message of this.#attempt(call, deadline, signal)) {
          begun = true
          yield message
        }
        return
      } catch (error) {
        signal.throwIfAborted()
        const isLost = error instanceof KasError && error.code === 'TUNNEL_LOST'
        if (begun || left === 0 || !isLost) throw this.#withAddress(KasError.from(error))
      }
    }
  }

  async *#attempt(call: GitalyCall, deadline: number, signal: AbortSignal): AsyncGenerator<Uint8Array, void, void> {
    const { clock, answered } = this.#components
    const session = await this.#connected(signal)
    const begin = clock.now()
    const bytesBefore = session.bytesRead
    const { method } = call
    const stream = session.open({ method, metadata: call.metadata(), signal, timeoutMs: Math.max(1, deadline - begin) })
    let isRead = false
    try {
      await stream.send(call.request)
      stream.end()
      yield* stream.messages
      isRead = true
    } finally {
      if (!isRead) stream.cancel() // the reader needs no more of the answer
      const { error } = await stream.done
      answered(method, isRead ? error : undefined, (clock.now() - begin) / 1000)
      if (error?.code === 'DEADLINE_EXCEEDED' && session.bytesRead === bytesBefore) session.destroy() // may be dead
    }
    const { error } = await stream.done
    if (error) throw error
  }

  async #connected(signal: AbortSignal): Promise<ClientSession> {
    const session = await abortable(this.#dialled(), signal)
    if (!session.draining) return session
    this.#session = undefined // the connection has ended, but `onDraining` has not run yet
    return await abortable(this.#dialled(), signal)
  }

  #dialled(): Promise<ClientSession> {
    if (this.#session) return this.#session
    const { secureContext } = this.#components
    const session = dialGitaly(this.#address, { ...this.#options, secureContext }, this.#stopped.signal)
    const forget = () => {
      if (this.#session === session) this.#session = undefined
    }
    session.then((connected) => connected.onDraining(forget), forget)
    this.#session = session
    return session
  }

  /** Adds Gitaly's address to an error, but not to a status of Gitaly. */
  #withAddress(error: KasError): KasError {
    const { code } = error
    if (code === 'STATUS' || code === 'REPOSITORY_FAILED' || code === 'SHUTTING_DOWN') return error
    const why = {
      TUNNEL_LOST: 'the connection was lost',
      DEADLINE_EXCEEDED: `no whole answer after ${this.#options.callTimeoutMs} ms`,
    }
    const detail = `Gitaly at ${this.#address}: ${why[code as keyof typeof why] ?? error.message}`
    return new KasError({ code: 'REPOSITORY_FAILED', detail }, { cause: error })
  }
}
