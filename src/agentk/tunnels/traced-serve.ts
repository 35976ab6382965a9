import { RpcSpan } from '../../call/rpc-span.ts'
import { KasError } from '../../lib/errors.ts'
import type { Tracer } from '../../lib/tracing/tracer.ts'
import type { Serve } from './serve.ts'

/** Serves each call as a span of its own, part of what its metadata says. */
export function tracedServe(tracer: Tracer, serve: Serve): Serve {
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
