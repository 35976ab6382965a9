import type { Clock } from '../../lib/clock.ts'
import { Deadline } from '../../lib/deadline.ts'
import { KasError } from '../../lib/errors.ts'
import { FairQueue } from '../../lib/turns.ts'
import type { ApiClient, JsonAnswer, JsonOptions } from './api-client.ts'

/** Lanes, best first: calls that wait in one go before those of the next. */
export const laneNames = ['control', 'apply', 'preview', 'scan'] as const
export type LaneName = (typeof laneNames)[number]

/** Requests to the API server that take turns with others. */
export type ApiLane = Pick<ApiClient, 'json'>

export interface BackgroundRequestsOptions {
  readonly callsPerSecond: number
  /** fewest calls in flight; the API server's answers move the limit between this and `maxWidth` */
  readonly minWidth: number
  /** most calls in flight */
  readonly maxWidth: number
}

const defaults: BackgroundRequestsOptions = { callsPerSecond: 150, minWidth: 4, maxWidth: 32 }
/** Places for control alone, while slow applies take all others. */
const controlPlaces = 2
/** Part of the places that previews may have at once: slow dry runs of users leave the others to rounds. */
const previewPart = 1 / 2
/** Limit of calls that wait (`waiting_api_calls`): an agent's 10,000 objects, and as many again. */
const maxWaiting = 20_000
/** Limit of repeats of a call after status 429. */
const maxRepeats = 5
/** Pause after a 429 without Retry-After, and the longest pause that a server may ask for. ms */
const retryAfterMs = { default: 1000, max: 60_000 }
/** Longest wait before a call, that is the longest pause, and the rate's step. A clock that is set back makes it longer. ms */
const maxWaitMs = retryAfterMs.max + 1000
/** A server error that takes so long is a sign of overload. ms */
const slowMs = 1000
/** Calls that fail within this time slow the lanes down once. ms */
const halvingMs = 1000
/** Limit of one call, above the API server's own minute: after it the connection is dead. ms */
const callTimeoutMs = 75_000

export interface BackgroundRequestsComponents {
  readonly client: ApiLane
  readonly clock: Clock
  /** true if this pod may write now; asked right before each write is sent */
  readonly holds: () => boolean
  /** called when a call is sent */
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
  /** removes the listener on its signal */
  forget: () => void
  repeats: number
}

/**
 * Requests of background work to the API server, limited per second and at once. The most important lane goes first,
 * and users of the same lane take turns. All of them slow down when the server asks for it.
 */
export class BackgroundRequests {
  readonly #components: BackgroundRequestsComponents
  readonly #options: BackgroundRequestsOptions
  readonly #queues: Readonly<Record<LaneName, FairQueue<Call>>>
  #width: number
  #inFlight = 0
  /** of them those of previews */
  #previews = 0
  /** successful calls since the width last grew */
  #good = 0
  /** earliest times of the next call: by the rate, and by the pause that the server asked for */
  #nextAt = Number.NEGATIVE_INFINITY
  #restsUntil = Number.NEGATIVE_INFINITY
  #halvedAt = Number.NEGATIVE_INFINITY
  #stopWaiting: (() => void) | undefined

  constructor(components: BackgroundRequestsComponents, options: Partial<BackgroundRequestsOptions> = {}) {
    this.#components = components
    this.#options = { ...defaults, ...options }
    this.#width = this.#options.maxWidth
    const queue = () => new FairQueue<Call>(maxWaiting)
    this.#queues = { control: queue(), apply: queue(), preview: queue(), scan: queue() }
  }

  /** Present limit of calls in flight. */
  get width(): number {
    return this.#width
  }

  /**
   * Returns a lane for one user.
   *
   * @param headers - added to each request, such as those of impersonation: name, value, name, value
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

  /** Sends the calls that may be sent now. */
  #run(): void {
    const { clock } = this.#components
    this.#stopWaiting?.()
    this.#stopWaiting = undefined
    while (laneNames.some((name) => this.#queues[name].size > 0)) {
      const waitMs = Math.max(this.#nextAt, this.#restsUntil) - clock.now()
      if (waitMs > maxWaitMs) {
        this.#nextAt = this.#restsUntil = clock.now() // the clock was set back
        continue
      }
      if (waitMs > 0) {
        this.#stopWaiting = clock.after(waitMs, () => this.#run())
        return
      }
      const call = this.#take()
      if (!call) return
      const { callsPerSecond, maxWidth } = this.#options
      // bursts up to the limit of calls in flight, and the rate in the long run
      const earliest = clock.now() - (maxWidth * 1000) / callsPerSecond
      this.#nextAt = Math.max(this.#nextAt, earliest) + 1000 / callsPerSecond
      void this.#send(call)
    }
  }

  #take(): Call | undefined {
    for (const name of laneNames) {
      const places = this.#width + (name === 'control' ? controlPlaces : 0)
      if (name === 'preview' && this.#previews >= Math.ceil(this.#width * previewPart)) continue
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
    const previews = call.name === 'preview' ? 1 : 0
    this.#inFlight += 1
    this.#previews += previews
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
      this.#previews -= previews
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

  /** Widens by one after as many successful calls as the width. */
  #grow(): void {
    this.#good += 1
    if (this.#good < this.#width) return
    this.#good = 0
    this.#width = Math.min(this.#options.maxWidth, this.#width + 1)
  }
}

/** True if a webhook for some objects cannot be called: the API server itself is well. */
function isWebhooks({ status, body }: JsonAnswer): boolean {
  const { message } = (body ?? {}) as { message?: unknown }
  return status === 500 && typeof message === 'string' && message.includes('failed calling webhook')
}
