import type { Delivery, KasError } from '../../../lib/errors.ts'
import type { LastMessage } from './last-message.ts'
import { isWebSocket } from './request/bearer-protocol.ts'
import type { RequestHead } from './request/request-head.ts'
import type { FailedAt, FailedRequest } from './response/error-answer.ts'
import type { AskedPlace } from './response/relative-location.ts'

/**
 * - `reading`: the head may turn out malformed
 * - `deciding`: the head is known; kas refuses the request, answers it itself, or forwards it
 * - `forwarding`: kas searches for a tunnel to the agent
 * - `delivered`: a tunnel has the call, so the cluster may have the request
 * - `answering`: the head of the cluster's answer was passed on
 */
type Phase = 'reading' | 'deciding' | 'forwarding' | 'delivered' | 'answering'

const before = {
  deciding: 'reading',
  forwarding: 'deciding',
  delivered: 'forwarding',
  answering: 'delivered',
} as const satisfies Partial<Record<Phase, Phase>>

const discovery = /^\/(?:apis?|version|openapi\/v[23](?:\/.*)?)\/?$/

/** Tracks the progress of a request, which determines how a failure is reported. A step out of order throws. */
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
  /** the answer so far ends at a boundary */
  #isBetween = true
  /** bytes of the answer that wait in kas for more of it */
  #keptBytes = 0
  #withdrawal: KasError | undefined
  #failure: KasError | undefined

  /** @param traceId - as in FailedRequest */
  constructor(traceId: string | undefined) {
    this.traceId = traceId
  }

  /** @param origin - origin of the calling page, which may read the answer; undefined: no page calls */
  read({ accept, upgrade }: Pick<RequestHead, 'accept' | 'upgrade'>, origin: string | undefined): void {
    this.#step('deciding')
    this.#accept = accept
    this.#origin = origin
    this.#isWebSocket = isWebSocket({ upgrade })
  }

  /** @param asked - place in the cluster */
  asks({ path, rawPath, root }: AskedPlace): void {
    this.#asked = { path, rawPath, root }
    this.#isDiscovery = discovery.test(path)
  }

  /** @param warning - value of the header `Warning` of each answer from now on */
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

  /** @param lastMessage - undefined: the answer has no place for one */
  answerBegan(lastMessage: LastMessage | undefined): void {
    this.#step('answering')
    this.#lastMessage = lastMessage
  }

  /** @returns the part of the chunk to pass on; after a withdrawal, only up to where a last message may follow */
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

  /** @param bytes - bytes of the answer that wait for more of it; negative ones wait no longer */
  keeps(bytes: number): void {
    this.#keptBytes += bytes
  }

  /** Notes that the caller lost access: the request fails with this reason, not with a later error. */
  withdraw(reason: KasError): void {
    if (this.#withdrawal || this.#failure) throw this.#outOfOrder('withdrawn')
    this.#withdrawal = reason
  }

  /** Notes the failure; no step may follow. */
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

  /** values of the request's Accept header */
  get accept(): readonly string[] {
    return this.#accept
  }

  /** undefined: no page calls */
  get origin(): string | undefined {
    return this.#origin
  }

  get isWebSocket(): boolean {
    return this.#isWebSocket
  }

  /** undefined: the target is not read yet */
  get asked(): AskedPlace | undefined {
    return this.#asked
  }

  get isDiscovery(): boolean {
    return this.#isDiscovery
  }

  /** True if waiting would not allow a better end. */
  get mayEnd(): boolean {
    return this.#lastMessage === undefined || (this.#isBetween && this.#keptBytes === 0)
  }

  /** Last message that may follow the bytes that were passed on; undefined: none. */
  get lastMessage(): LastMessage | undefined {
    return this.#isBetween ? this.#lastMessage : undefined
  }

  /** reason for which the caller lost access during its request */
  get withdrawal(): KasError | undefined {
    return this.#withdrawal
  }

  /** error with which the request ended; undefined: the cluster's answer */
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
