import type { Call, Reply } from '../../call/call.ts'
import { RpcSpan } from '../../call/rpc-span.ts'
import { KasError } from '../../lib/errors.ts'
import { noTracer, type Tracer } from '../../lib/tracing/tracer.ts'

/** A message in pieces: a large payload is sent without a copy behind its head. */
export class SplitMessage {
  readonly head: Uint8Array
  /** at least one piece */
  readonly payload: readonly Uint8Array[]
  /** bytes of head and payload together */
  readonly length: number

  constructor(head: Uint8Array, payload: readonly Uint8Array[], payloadBytes: number) {
    this.head = head
    this.payload = payload
    this.length = head.length + payloadBytes
  }
}

export interface ServeReply extends Omit<Reply, 'messages'> {
  readonly messages: AsyncIterable<Uint8Array | SplitMessage>
}

/** Serves a method. Every Forward is one; a module that moves many bytes may split its messages. */
export type Serve = (call: Call) => Promise<ServeReply>

/** Serves each call in a span of its own. The call's metadata names the parent span. */
export function tracedServe(tracer: Tracer, serve: Serve): Serve {
  if (tracer === noTracer) return serve
  return async (call) => {
    const span = RpcSpan.begin(tracer, { kind: 'server', method: call.method, parent: call.metadata })
    try {
      const reply = await serve(span.call(call))
      void reply.done.then(({ error }) => span.end(error))
      return reply
    } catch (error) {
      span.end(KasError.from(error))
      throw error
    }
  }
}
