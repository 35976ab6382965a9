import type { Call, Forward, Reply } from '../../call/call.ts'
import { KnownMessages } from '../../call/known-messages.ts'
import type { Delivery } from '../../lib/errors.ts'
import { ReplayablePrefix } from './replayable-prefix.ts'

/**
 * Rules for repeating a call; no other stage repeats one (doc/internals/routing.md "What is tried again").
 *
 * A call that was lost before any of it was sent is repeated, whatever its method does. A call that may have arrived is
 * repeated up to `maxRepeats` times, if it is safe and no byte of its reply has come. Messages are kept until the reply
 * begins, at most `maxKeptBytes`: a call with more is not repeated.
 */

/** Repeats of a safe call that may have arrived. */
export const maxRepeats = 2
/** Repeats of a call that was not sent: each loses its tunnel or holder between the offer and the first message. */
export const maxUnsentRepeats = 8
/** Bytes of a call's messages that are kept for repeats. */
export const maxKeptBytes = 64 * 1024

/** Wraps a stage: calls that are safe to repeat are repeated. */
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
      // no metadata: the agent answered with an error, or the call was lost
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

/** @returns undefined: the call was not lost */
async function deliveryOfLost(reply: Reply): Promise<Delivery | undefined> {
  const { error } = await reply.done
  return error?.spec.code === 'TUNNEL_LOST' ? error.spec.delivery : undefined
}

/** Messages that can be read repeatedly without a copy. */
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
