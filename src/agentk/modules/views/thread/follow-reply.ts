import { create, toBinary } from '@bufbuild/protobuf'
import { type Call, noMetadata, type Outcome } from '../../../../call/call.ts'
import { KasError } from '../../../../lib/errors.ts'
import { abortable, linkedController } from '../../../../lib/signals.ts'
import { decodeMessage } from '../../../../proto/decode.ts'
import { FollowRequestSchema, FollowResponseSchema } from '../../../../proto/gen/views_pb.ts'
import type { ServeReply } from '../../../tunnels/serve.ts'

const end: IteratorResult<Uint8Array> = { value: undefined, done: true }

/** Reply to one stream of `Views/Follow`: answers of the thread, as fast as kas takes them. */
export class FollowReply implements ServeReply, AsyncIterableIterator<Uint8Array> {
  readonly metadata = Promise.resolve(noMetadata)
  readonly done: Promise<Outcome>
  readonly messages = this
  readonly #onSent: (bytes: number) => void
  readonly #onLeft: () => void
  readonly #done = Promise.withResolvers<Outcome>()
  /** the thread counts them: at most `maxUnsentBytes`, and one message */
  readonly #queue: Uint8Array[] = []
  #reader: ((result: IteratorResult<Uint8Array>) => void) | undefined
  /** bytes of the message that the reader has */
  #taken = 0
  #hasEnded = false

  constructor(events: { onSent: (bytes: number) => void; onLeft: () => void }) {
    this.#onSent = events.onSent
    this.#onLeft = events.onLeft
    this.done = this.#done.promise
  }

  push(message: Uint8Array): void {
    if (this.#hasEnded) return
    if (!this.#reader) this.#queue.push(message)
    else this.#give(this.#reader, message)
  }

  /** Ends the reply; messages from before are still read. */
  end(error?: KasError): void {
    if (this.#hasEnded) return
    this.#hasEnded = true
    this.#done.resolve({ error, trailers: noMetadata })
    this.#reader?.(end)
  }

  next(): Promise<IteratorResult<Uint8Array>> {
    if (this.#taken > 0) this.#onSent(this.#taken)
    this.#taken = 0
    return new Promise((resolve) => {
      const message = this.#queue.shift()
      if (message) this.#give(resolve, message)
      else if (this.#hasEnded) resolve(end)
      else this.#reader = resolve
    })
  }

  return(): Promise<IteratorResult<Uint8Array>> {
    this.#queue.length = 0
    this.#onLeft()
    this.end()
    return Promise.resolve(end)
  }

  [Symbol.asyncIterator](): this {
    return this
  }

  #give(reader: (result: IteratorResult<Uint8Array>) => void, value: Uint8Array): void {
    this.#reader = undefined
    this.#taken = value.length
    reader({ value, done: false })
  }
}

/**
 * Serves `Views/Follow` while views are off: each view gets the reason, and nobody waits for another pod.
 *
 * @param reason - text that a view gets
 * @param over - aborts when the reason no longer holds: kas then opens the stream again, which it keeps for the next
 * viewers
 */
export function refuseViews(
  { messages, signal }: Pick<Call, 'messages' | 'signal'>,
  { reason, over }: { reason: string; over: AbortSignal },
): ServeReply {
  const fault = { code: 'VIEWS_NOT_SERVED', text: reason }
  const done = Promise.withResolvers<Outcome>()
  return { metadata: Promise.resolve(noMetadata), messages: answers(), done: done.promise }

  async function* answers(): AsyncGenerator<Uint8Array> {
    const ended = linkedController(signal, over)
    const requests = messages[Symbol.asyncIterator]()
    try {
      for (;;) {
        const { value, done: isOver } = await abortable(requests.next(), ended.signal)
        if (isOver) break
        const { view, step } = decodeMessage(FollowRequestSchema, value)
        if (step.case === 'open') yield toBinary(FollowResponseSchema, create(FollowResponseSchema, { view, fault }))
      }
    } catch (error) {
      if (!over.aborted) done.resolve({ error: KasError.from(error), trailers: noMetadata })
    } finally {
      done.resolve({ trailers: noMetadata })
      ended.dispose()
    }
  }
}
