import type { Delivery, KasError } from '../../../lib/errors.ts'
import type { LastMessage } from './last-message.ts'
import { isWebSocket } from './request/bearer-protocol.ts'
import type { RequestHead } from './request/request-head.ts'
import type { FailedAt, FailedRequest } from './response/error-answer.ts'
import type { AskedPlace } from './response/relative-location.ts'

/**
 * - `reading`: the head may turn out malformed
 * - `deciding`: the head is known; kas refuses the request, answers it by itself, or forwards it
 * - `forwarding`: a tunnel to the agent is sought
 * - `delivered`: a tunnel has the call, so the cluster may have the request
 * - `answering`: the head of the cluster's answer has been passed on
 */
type Phase = 'reading' | 'deciding' | 'forwarding' | 'delivered' | 'answering'

const before = {
  deciding: 'reading',
  forwarding: 'deciding',
  delivered: 'forwarding',
  answering: 'delivered',
} as const satisfies Partial<Record<Phase, Phase>>

const discovery = /^\/(?:apis?|version|openapi\/v[23](?:\/.*)?)\/?$/

/** How far a request has come: how a failure is reported depends on it. A step out of order throws. */
export class Progress implements FailedRequest {
  readonly traceId: string | undefined
  #phase: Phase = 'reading'
  #accept: readonly string[] = []
  #origin: string | undefined
  #warning: string | undefined
  #isWebSocket = false
  #isDiscovery = false
  #asked: AskedPlace | undefined
  #lastMessage: LastMessage | undefined
  /** nothing is missing of what the client has of the answer */
  #isBetween = true
  /** of the answer, which wait in kas for more of it */
  #keptBytes = 0
  #withdrawal: KasError | undefined
  #failure: KasError | undefined

  /** @param traceId - as in FailedRequest */
  constructor(traceId: string | undefined) {
    this.traceId = traceId
  }

  /** @param origin - of the page that calls, which may read the answer */
  read({ accept, upgrade }: Pick<RequestHead, 'accept' | 'upgrade'>, origin: string | undefined): void {
    this.#step('deciding')
    this.#accept = accept
    this.#origin = origin
    this.#isWebSocket = isWebSocket({ upgrade })
  }

  /** @param asked - in the cluster */
  asks({ path, rawPath, root }: AskedPlace): void {
    this.#asked = { path, rawPath, root }
    this.#isDiscovery = discovery.test(path)
  }

  /** @param warning - a value of the header `Warning` of each answer from now on */
  warns(warning: string | undefined): void {
    this.#warning = warning
  }

  get warning(): string | undefined {
    return this.#warning
  }

  forwarding(): void {
    this.#step('forwarding')
  }

  delivered(): void {
    this.#step('delivered')
  }

  /** @param lastMessage - undefined: it has no place for any */
  answerBegan(lastMessage: LastMessage | undefined): void {
    this.#step('answering')
    this.#lastMessage = lastMessage
  }

  /** @returns what is passed on of a piece of the answer: of one that was withdrawn only what a last message may follow */
  writes(chunk: Uint8Array): Uint8Array {
    if (this.#phase !== 'answering' || this.#failure) throw this.#outOfOrder('writing')
    const boundaries = this.#lastMessage?.boundaries
    for (let at = 0; boundaries && at < chunk.length; ) {
      const end = boundaries.endOf(chunk, at)
      this.#isBetween = end >= 0
      if (end < 0) return chunk
      if (this.#withdrawal) return chunk.subarray(0, end)
      at = end
    }
    return chunk
  }

  /** @param bytes - of the answer that are kept until more of it has come; negative ones are kept no longer */
  keeps(bytes: number): void {
    this.#keptBytes += bytes
  }

  /** The caller may no longer; this, not what breaks by it, is what the request fails with. */
  withdraw(reason: KasError): void {
    if (this.#withdrawal || this.#failure) throw this.#outOfOrder('withdrawn')
    this.#withdrawal = reason
  }

  /** Nothing comes after it. */
  fail(error: KasError): void {
    if (this.#failure) throw this.#outOfOrder('failed')
    this.#failure = this.#withdrawal ?? error
  }

  get failedAt(): FailedAt {
    return this.#phase === 'reading' || this.#phase === 'deciding' ? 'entry' : 'tunnel'
  }

  get delivery(): Delivery {
    return this.#phase === 'delivered' || this.#phase === 'answering' ? 'maybe' : 'none'
  }

  /** of the request */
  get accept(): readonly string[] {
    return this.#accept
  }

  /** undefined: it is no page that calls */
  get origin(): string | undefined {
    return this.#origin
  }

  get isWebSocket(): boolean {
    return this.#isWebSocket
  }

  /** undefined: it is not known yet */
  get asked(): AskedPlace | undefined {
    return this.#asked
  }

  get isDiscovery(): boolean {
    return this.#isDiscovery
  }

  /** It cannot be ended better a little later. */
  get mayEnd(): boolean {
    return this.#lastMessage === undefined || (this.#isBetween && this.#keptBytes === 0)
  }

  /** That can follow now what was passed on; undefined: none. */
  get lastMessage(): LastMessage | undefined {
    return this.#isBetween ? this.#lastMessage : undefined
  }

  /** why the caller may no longer, found while its request ran */
  get withdrawal(): KasError | undefined {
    return this.#withdrawal
  }

  /** what the request ended with, if not with the cluster's answer */
  get failure(): KasError | undefined {
    return this.#failure
  }

  #step(to: keyof typeof before): void {
    if (this.#phase !== before[to] || this.#failure) throw this.#outOfOrder(to)
    this.#phase = to
  }

  #outOfOrder(step: string): Error {
    return new Error(`a request cannot be ${step} ${this.#failure ? 'after it has failed' : `while ${this.#phase}`}`)
  }
}
