import { noMetadata, type Outcome } from '../../call/call.ts'
import { KasError } from '../../lib/errors.ts'
import type { ServeReply } from './serve.ts'

/** Makes a reply of messages. An error that they throw is the end of the call. */
export function replyOf(messages: AsyncIterable<Uint8Array>): ServeReply {
  const { promise: done, resolve } = Promise.withResolvers<Outcome>()
  return { metadata: Promise.resolve(noMetadata), messages: read(messages, resolve), done }
}

async function* read(messages: AsyncIterable<Uint8Array>, end: (outcome: Outcome) => void): AsyncGenerator<Uint8Array> {
  try {
    yield* messages
    end({ trailers: noMetadata })
  } catch (error) {
    end({ error: KasError.from(error), trailers: noMetadata })
  } finally {
    end({ error: new KasError({ code: 'CANCELLED' }), trailers: noMetadata }) // the reader has left, unless it ended
  }
}
