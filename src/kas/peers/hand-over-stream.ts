import type { Call, Metadata, Outcome, Reply } from '../../call/call.ts'
import { payerOf } from '../../call/caller.ts'
import { KnownMessages } from '../../call/known-messages.ts'
import { KasError } from '../../lib/errors.ts'
import type { ClientCall, LaneCallOptions } from '../../proto/grpc/client-call.ts'
import type { UnreadBytes } from '../../proto/grpc/unread-bytes.ts'
import { go, type HandOver, readOutcome, tunnelKey, withoutOwnKeys, writeHandOver } from './hand-over-metadata.ts'

/** What a peer answers to a call that it is offered. `refused`: the error says why. `gone`: nothing, and it will not. */
export type Answer = 'ready' | 'none' | 'refused' | 'unknown' | 'gone'

interface Connection {
  open(options: LaneCallOptions): ClientCall
}

/** One call that is handed to the peer that holds its agent, seen from the entry. */
export class HandOverStream {
  readonly answer: Promise<Answer>
  /** the agent's; undefined: the call ended before they came */
  readonly metadata: Promise<Metadata | undefined>
  readonly done: Promise<Outcome>
  readonly #stream: ClientCall
  readonly #eager: boolean
  /** anything went out for the agent */
  #isSent = false
  #isDone = false
  #unbind: (() => void) | undefined

  /**
   * @param connection - to the peer
   * @param unread - where what the caller does not take is counted
   * @throws KasError TUNNEL_LOST (delivery none)
   */
  constructor(connection: Connection, call: Call, handOver: HandOver, unread?: UnreadBytes) {
    const answer = Promise.withResolvers<Answer>()
    this.answer = answer.promise
    this.#eager = handOver.eager
    this.#stream = connection.open({
      method: call.method,
      metadata: writeHandOver(handOver, call.metadata),
      unread,
      callerKey: payerOf(call.caller),
      onInterim: (metadata) => {
        if (metadata[tunnelKey]?.[0] === 'ready') answer.resolve('ready')
      },
    })
    this.metadata = this.#stream.metadata.then((own) => {
      if (!own) return undefined
      answer.resolve('ready')
      return withoutOwnKeys(own)
    })
    this.done = this.#stream.done.then((outcome) => {
      this.#isDone = true
      this.#unbind?.()
      answer.resolve(refusalOf(outcome))
      return this.#withDelivery(readOutcome(outcome))
    })
  }

  /** Calls `listener` once nothing of the stream is left here. */
  onClosed(listener: () => void): void {
    this.#stream.onClosed(listener)
  }

  /** Sends the call's messages; `done` says how that went. */
  async send({ messages }: Call): Promise<void> {
    const stream = this.#stream
    if (this.#isDone) return
    this.#isSent = true
    try {
      if (!this.#eager) void stream.send(go)
      if (messages instanceof KnownMessages) for (const message of messages.all) void stream.send(message)
      else {
        for await (const message of messages) {
          if (this.#isDone) return
          const full = stream.send(message)
          if (full) await full
        }
      }
      stream.end()
    } catch (cause) {
      this.cancel(new KasError({ code: 'CANCELLED', detail: 'read from incoming stream' }, { cause }))
    }
  }

  /** What comes back, tied to the caller. */
  reply({ signal }: Call): Reply {
    const leave = () => this.cancel(KasError.from(signal.reason))
    if (signal.aborted) leave()
    else signal.addEventListener('abort', leave, { once: true })
    this.#unbind = () => signal.removeEventListener('abort', leave)
    return { metadata: this.metadata, messages: this.#stream.messages, done: this.done }
  }

  cancel(reason?: KasError): void {
    this.#stream.cancel(reason)
  }

  /** A connection that was lost does not know what had been sent on it. */
  #withDelivery(outcome: Outcome): Outcome {
    if (this.#isSent || outcome.error?.code !== 'TUNNEL_LOST') return outcome
    return { ...outcome, error: new KasError({ code: 'TUNNEL_LOST', delivery: 'none' }, { cause: outcome.error }) }
  }
}

const answers: readonly Answer[] = ['ready', 'none', 'refused', 'unknown']

function refusalOf({ trailers }: Outcome): Answer {
  const [said] = trailers[tunnelKey] ?? []
  return answers.find((answer) => answer === said) ?? 'gone'
}
