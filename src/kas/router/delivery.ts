import { type Call, type Forward, noMetadata, type Reply } from '../../proto/call.ts'
import { KnownMessages } from '../../proto/known-messages.ts'

/**
 * What may be tried again, and the only place that says so (design 4, table "What may be tried again").
 *
 * A safe call whose tunnel was lost before the first byte of the reply goes another way, up to `maxRepeats` times.
 * Messages are kept until then, `maxKeptBytes` at the most: a call that outgrows it loses the right to be repeated.
 */

export const maxRepeats = 2
export const maxKeptBytes = 64 * 1024

/** Wraps a stage so that what can be repeated without harm is. */
export function deliver(forward: Forward): Forward {
  return (call) => (call.safety === 'safe' ? deliverSafe(forward, call) : forward(call))
}

async function deliverSafe(forward: Forward, call: Call): Promise<Reply> {
  const { messages } = call
  const prefix = messages instanceof KnownMessages ? new KnownPrefix(messages) : new ReplayablePrefix(messages)
  for (let repeats = 0; ; repeats++) {
    const reply = await forward({ ...call, messages: prefix.read() })
    if ((await reply.metadata) !== noMetadata) {
      prefix.forget()
      return reply
    }
    // ended before its headers: with the agent's own error, or lost
    if (repeats >= maxRepeats || !prefix.whole || call.signal.aborted || !(await wasLost(reply))) return reply
  }
}

async function wasLost(reply: Reply): Promise<boolean> {
  const { error } = await reply.done
  return error?.code === 'TUNNEL_LOST'
}

/** What was sent of a call and can be sent again. */
interface Prefix {
  /** all that was read so far can be read again */
  readonly whole: boolean
  /** reads from the first message; a reader that was given out before ends */
  read(): AsyncIterable<Uint8Array>
  /** the reply has begun: nothing is kept any more */
  forget(): void
}

class KnownPrefix implements Prefix {
  readonly #messages: KnownMessages

  constructor(messages: KnownMessages) {
    this.#messages = messages
  }

  get whole(): boolean {
    return this.#messages.bytes <= maxKeptBytes
  }

  read(): KnownMessages {
    return this.#messages
  }

  forget(): void {}
}

/** Messages that can be read again from their first, as long as they are few. */
class ReplayablePrefix implements Prefix {
  readonly #source: AsyncIterator<Uint8Array>
  #kept: Uint8Array[] = []
  #keptBytes = 0
  #forgotten = false
  #outgrown = false
  #ended = false
  /** which reader is the current one */
  #turn = 0
  #pending: Promise<IteratorResult<Uint8Array>> | undefined

  constructor(messages: AsyncIterable<Uint8Array>) {
    this.#source = messages[Symbol.asyncIterator]()
  }

  get whole(): boolean {
    return !this.#outgrown && !this.#forgotten
  }

  forget(): void {
    this.#forgotten = true
    this.#kept = []
  }

  async *read(): AsyncGenerator<Uint8Array, void, void> {
    const turn = ++this.#turn
    yield* this.#kept // this very list: `forget` and `#keep` put others in its place
    while (!this.#ended) {
      // a reader that was given up leaves its read behind: what that brings is the next one's
      this.#pending ??= this.#source.next()
      const result = await this.#pending
      if (turn !== this.#turn) return
      this.#pending = undefined
      if (result.done) {
        this.#ended = true
        return
      }
      this.#keep(result.value)
      yield result.value
    }
  }

  #keep(message: Uint8Array): void {
    if (this.#forgotten || this.#outgrown) return
    this.#keptBytes += message.length
    this.#outgrown = this.#keptBytes > maxKeptBytes
    if (this.#outgrown) this.#kept = []
    else this.#kept.push(message)
  }
}
