import type { Clock } from '../../lib/clock.ts'
import { Deadline } from '../../lib/deadline.ts'
import { KasError } from '../../lib/errors.ts'
import { FairQueue } from '../../lib/turns.ts'
import type { ApiClient, JsonAnswer, JsonOptions } from './api-client.ts'

/** Best first: what waits in one goes before what waits in the next. */
export const laneNames = ['control', 'apply', 'preview', 'scan'] as const
export type LaneName = (typeof laneNames)[number]

/** Requests to the API server that take turns with others. */
export type ApiLane = Pick<ApiClient, 'json'>

export interface ApiLanesOptions {
  readonly callsPerSecond: number
  /** calls in flight: as few as the API server makes us, and as many as it lets us */
  readonly minWidth: number
  readonly maxWidth: number
}

const defaults: ApiLanesOptions = { callsPerSecond: 150, minWidth: 4, maxWidth: 32 }
/** Control finds a place where slow applies hold all others. */
const controlPlaces = 2
/** For an agent's 10,000 objects, and as many again. */
const maxWaiting = 20_000
/** An answer that asks for patience is no answer: the call is made again, so often. */
const maxRepeats = 5
/** A server that does not say how long to wait, and the longest that one may ask for. ms */
const retryAfterMs = { default: 1000, max: 60_000 }
/** An error that takes so long is one of a server that cannot keep up. ms */
const slowMs = 1000
/** Calls that fail together are one reason to go slower. ms */
const halvingMs = 1000
/** Above the API server's own minute: then its connection is dead. ms */
const callTimeoutMs = 75_000

export interface ApiLanesComponents {
  readonly client: ApiLane
  readonly clock: Clock
  /** whether this pod may write now: asked right before each write is sent */
  readonly holds: () => boolean
  /** a call is sent */
  readonly onCall?: (lane: LaneName) => void
}

interface Call {
  readonly source: object
  readonly name: LaneName
  readonly isWrite: boolean
  readonly signal: AbortSignal | undefined
  readonly send: (signal: AbortSignal) => Promise<JsonAnswer>
  readonly resolve: (answer: JsonAnswer) => void
  readonly reject: (error: unknown) => void
  /** removes it when its signal aborts */
  forget: () => void
  repeats: number
}

/**
 * What background work asks of the API server: so many calls a second, so many at once, what matters most first, and of
 * the same lane each user in turn. It goes slower when the server says so, all of it together.
 */
export class ApiLanes {
  readonly #components: ApiLanesComponents
  readonly #options: ApiLanesOptions
  readonly #queues: Readonly<Record<LaneName, FairQueue<Call>>>
  #width: number
  #inFlight = 0
  /** calls that have gone well since the width last grew */
  #good = 0
  /** the moments from which the next call may be sent: by the rate, and by what the server asks for */
  #nextAt = Number.NEGATIVE_INFINITY
  #restsUntil = Number.NEGATIVE_INFINITY
  #halvedAt = Number.NEGATIVE_INFINITY
  #stopWaiting: (() => void) | undefined

  constructor(components: ApiLanesComponents, options: Partial<ApiLanesOptions> = {}) {
    this.#components = components
    this.#options = { ...defaults, ...options }
    this.#width = this.#options.maxWidth
    const queue = () => new FairQueue<Call>(maxWaiting)
    this.#queues = { control: queue(), apply: queue(), preview: queue(), scan: queue() }
  }

  /** Calls in flight at the most, now. */
  get width(): number {
    return this.#width
  }

  /**
   * A lane of one user.
   *
   * @param headers - of each of its requests, such as whom it acts as: name, value, name, value
   */
  lane(name: LaneName, headers: readonly string[] = []): ApiLane {
    const { client } = this.#components
    const source = {}
    return {
      json: (method, path, body, signal, options: JsonOptions = {}) => {
        const all = { ...options, headers: [...headers, ...(options.headers ?? [])] }
        const send = (limited: AbortSignal) => client.json(method, path, body, limited, all)
        return this.#add({ source, name, isWrite: method !== 'GET', signal, send })
      },
    }
  }

  #add(call: Pick<Call, 'source' | 'name' | 'isWrite' | 'signal' | 'send'>): Promise<JsonAnswer> {
    return new Promise((resolve, reject) => {
      const { signal } = call
      if (signal?.aborted) return reject(signal.reason)
      this.#wait({ ...call, resolve, reject, forget: () => undefined, repeats: 0 })
      this.#run()
    })
  }

  #wait(call: Call): void {
    const { signal } = call
    const queue = this.#queues[call.name]
    const onAbort = () => {
      queue.delete(call)
      call.reject(signal?.reason)
      this.#run()
    }
    signal?.addEventListener('abort', onAbort, { once: true })
    call.forget = () => signal?.removeEventListener('abort', onAbort)
    const loser = queue.add(call)
    if (!loser) return
    loser.forget()
    loser.reject(
      new KasError({
        code: 'TOO_MANY_STREAMS',
        name: 'waiting_api_calls',
        limit: maxWaiting,
        what: 'waiting calls to the API server',
      }),
    )
  }

  /** Sends what may be sent now. */
  #run(): void {
    const { clock } = this.#components
    this.#stopWaiting?.()
    this.#stopWaiting = undefined
    while (laneNames.some((name) => this.#queues[name].size > 0)) {
      const waitMs = Math.max(this.#nextAt, this.#restsUntil) - clock.now()
      if (waitMs > 0) {
        this.#stopWaiting = clock.after(waitMs, () => this.#run())
        return
      }
      const call = this.#take()
      if (!call) return
      const { callsPerSecond, maxWidth } = this.#options
      // as many at once as are allowed in flight, in the long run no more than the rate
      const earliest = clock.now() - (maxWidth * 1000) / callsPerSecond
      this.#nextAt = Math.max(this.#nextAt, earliest) + 1000 / callsPerSecond
      void this.#send(call)
    }
  }

  #take(): Call | undefined {
    for (const name of laneNames) {
      const places = this.#width + (name === 'control' ? controlPlaces : 0)
      const call = this.#inFlight < places ? this.#queues[name].take() : undefined
      if (call) return call
    }
    return undefined
  }

  async #send(call: Call): Promise<void> {
    const { clock, holds, onCall } = this.#components
    call.forget()
    if (call.isWrite && !holds()) {
      call.reject(new KasError({ code: 'CANCELLED', detail: 'this pod may not write now' }))
      return
    }
    this.#inFlight += 1
    onCall?.(call.name)
    const since = clock.now()
    const reason = () => new KasError({ code: 'DEADLINE_EXCEEDED' })
    const deadline = new Deadline({ ms: callTimeoutMs, clock, signals: [call.signal], reason })
    try {
      this.#answered(call, await call.send(deadline.signal), clock.now() - since)
    } catch (error) {
      if (deadline.isPast) this.#halve()
      call.reject(error)
    } finally {
      deadline.end()
      this.#inFlight -= 1
      this.#run()
    }
  }

  #answered(call: Call, answer: JsonAnswer, tookMs: number): void {
    if (answer.status === 429) {
      this.#halve()
      const waitMs = Math.min(answer.retryAfterMs ?? retryAfterMs.default, retryAfterMs.max)
      this.#restsUntil = Math.max(this.#restsUntil, this.#components.clock.now() + waitMs)
      if (call.repeats < maxRepeats && !call.signal?.aborted) {
        call.repeats += 1
        this.#wait(call)
        return
      }
    } else if (answer.status >= 500 && tookMs >= slowMs && !isWebhooks(answer)) this.#halve()
    else this.#grow()
    if (call.signal?.aborted) call.reject(call.signal.reason)
    else call.resolve(answer)
  }

  #halve(): void {
    const now = this.#components.clock.now()
    this.#good = 0
    if (now - this.#halvedAt < halvingMs) return
    this.#halvedAt = now
    this.#width = Math.max(this.#options.minWidth, Math.floor(this.#width / 2))
  }

  /** By one, each time that as many calls as are allowed at once have gone well. */
  #grow(): void {
    this.#good += 1
    if (this.#good < this.#width) return
    this.#good = 0
    this.#width = Math.min(this.#options.maxWidth, this.#width + 1)
  }
}

/** A webhook that somebody has installed for some objects cannot be called: the API server is well. */
function isWebhooks({ status, body }: JsonAnswer): boolean {
  const { message } = (body ?? {}) as { message?: unknown }
  return status === 500 && typeof message === 'string' && message.includes('failed calling webhook')
}
