import { noMetadata, type Outcome } from '../../../../call/call.ts'
import type { KasError } from '../../../../lib/errors.ts'
import type { ServeReply } from '../../../tunnels/serve.ts'

const end: IteratorResult<Uint8Array> = { value: undefined, done: true }

/** What one stream of `Views/Follow` is answered with: what the thread says, as fast as kas takes it. */
export class FollowReply implements ServeReply, AsyncIterableIterator<Uint8Array> {
  readonly metadata = Promise.resolve(noMetadata)
  readonly done: Promise<Outcome>
  readonly messages = this
  readonly #onSent: (bytes: number) => void
  readonly #onLeft: () => void
  readonly #done = Promise.withResolvers<Outcome>()
  /** the thread keeps count of them: at most `maxUnsentBytes`, and one message */
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

  /** What has come before is still read. */
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
