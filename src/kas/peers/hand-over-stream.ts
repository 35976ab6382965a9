import type { Call, Metadata, Outcome, Reply } from '../../call/call.ts'
import { payerOf } from '../../call/caller.ts'
import { KnownMessages } from '../../call/known-messages.ts'
import { KasError } from '../../lib/errors.ts'
import type { ClientCall, LaneCallOptions } from '../../proto/grpc/client-lane-call.ts'
import type { UnreadBytes } from '../../proto/grpc/unread-bytes.ts'
import { go, type HandOver, readOutcome, tunnelKey, withoutOwnKeys, writeHandOver } from './hand-over-metadata.ts'

/** Answer of a peer to an offered call. `refused`: the error has the reason. `gone`: no answer will come. */
export type Answer = 'ready' | 'none' | 'refused' | 'unknown' | 'gone'

/** Opens calls on the link to the peer. */
interface OpenLanes {
  open(options: LaneCallOptions): ClientCall
}

/** Call that this replica, the entry, hands over to a holder of its agent. */
export class HandOverStream {
  readonly answer: Promise<Answer>
  /** the agent's metadata; undefined: the call ended before the metadata arrived */
  readonly metadata: Promise<Metadata | undefined>
  readonly done: Promise<Outcome>
  readonly #stream: ClientCall
  readonly #eager: boolean
  /** true once a message for the agent may have been sent */
  #isSent = false
  #isDone = false
  #unbind: (() => void) | undefined

  /**
   * @param connection - connection to the peer
   * @param unread - counts bytes that the caller has not taken
   * @throws KasError TUNNEL_LOST (delivery none)
   */
  constructor(lanes: OpenLanes, call: Call, handOver: HandOver, unread?: UnreadBytes) {
    const answer = Promise.withResolvers<Answer>()
    this.answer = answer.promise
    this.#eager = handOver.eager
    this.#stream = lanes.open({
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

  /** Calls `listener` once the stream uses no more memory at this replica. */
  onClosed(listener: () => void): void {
    this.#stream.onClosed(listener)
  }

  /** Sends the call's messages; `done` has the outcome. */
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

  /** Returns the reply; the stream is cancelled when the caller leaves. */
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

  /** Corrects the delivery of TUNNEL_LOST: the connection does not know whether a message for the agent was sent. */
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
