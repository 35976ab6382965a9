import { noMetadata, type Reply } from '../../call/call.ts'
import { KasError } from '../../lib/errors.ts'

const metadata = Promise.resolve(undefined)

/** Of a call whose tunnel was lost before anything was sent on it. */
export function lostReply(): Reply {
  const error = new KasError({ code: 'TUNNEL_LOST', delivery: 'none' })
  return { metadata, messages: nothing(), done: Promise.resolve({ error, trailers: noMetadata }) }
}

async function* nothing(): AsyncGenerator<Uint8Array, void, void> {}
