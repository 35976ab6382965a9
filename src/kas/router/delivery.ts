import type { Call, Forward, Reply } from '../../call/call.ts'
import { KnownMessages } from '../../call/known-messages.ts'
import type { Delivery } from '../../lib/errors.ts'
import { ReplayablePrefix } from './replayable-prefix.ts'

/**
 * What may be tried again, and the only place that says so (doc/routing.md "What is tried again").
 *
 * A call that was lost before anything of it had been sent is tried again, whatever it does. One that may have arrived
 * is tried again if it is safe, and no byte of its reply has come, up to `maxRepeats` times. Messages are kept until
 * then, `maxKeptBytes` at the most: a call that outgrows it is not repeated.
 */

export const maxRepeats = 2
/** Each takes a tunnel, or a holder, that is lost in the moment between the offer and the first message. */
export const maxUnsentRepeats = 8
export const maxKeptBytes = 64 * 1024

/** Wraps a stage so that what can be repeated without harm is. */
export function deliver(forward: Forward): Forward {
  return async (call) => {
    const { messages } = call
    const prefix =
      messages instanceof KnownMessages ? new KnownPrefix(messages) : new ReplayablePrefix(messages, maxKeptBytes)
    const repeats = { none: 0, maybe: 0 }
    for (;;) {
      const reply = await forward({ ...call, messages: prefix.read() })
      if ((await reply.metadata) !== undefined) {
        prefix.forget()
        return reply
      }
      // ended before its headers: with the agent's own error, or lost
      const delivery = await deliveryOfLost(reply)
      if (!delivery || !prefix.whole || call.signal.aborted || repeats[delivery]++ >= allowed(call, delivery)) {
        return reply
      }
    }
  }
}

function allowed({ safety }: Call, delivery: Delivery): number {
  if (delivery === 'none') return maxUnsentRepeats
  return safety === 'safe' ? maxRepeats : 0
}

/** @returns undefined: it was not lost */
async function deliveryOfLost(reply: Reply): Promise<Delivery | undefined> {
  const { error } = await reply.done
  return error?.spec.code === 'TUNNEL_LOST' ? error.spec.delivery : undefined
}

/** Messages that can be read again by themselves. */
class KnownPrefix implements Pick<ReplayablePrefix, 'whole' | 'read' | 'forget'> {
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
