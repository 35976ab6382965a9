import { Code, KasError } from '../lib/errors.ts'
import {
  agentAttributes,
  failureOf,
  isRpcFailure,
  rpcAttributes,
  rpcStatusAttributes,
} from '../lib/tracing/attributes.ts'
import { withTraceHeaders } from '../lib/tracing/trace-context.ts'
import type { Span, SpanAttributes, Tracer } from '../lib/tracing/tracer.ts'
import type { Call, Metadata } from './call.ts'
import type { ServerStream } from './grpc/server-session.ts'

/** Spans of gRPC calls. A call's metadata says of which span it is part: each stage puts its own in that place. */

export interface RpcSpanInit {
  readonly kind: 'server' | 'client'
  /** `/package.Service/Method` */
  readonly method: string
  /** of the caller, or of the call on its way */
  readonly parent: Metadata
  readonly attributes?: SpanAttributes
}

/** The span of one call. */
export class RpcSpan {
  readonly #kind: 'server' | 'client'
  readonly #span: Span

  constructor(tracer: Tracer, { kind, method, parent, attributes }: RpcSpanInit) {
    this.#kind = kind
    const all = { ...rpcAttributes(method), ...attributes }
    this.#span = tracer.begin(method.slice(1), { kind, parent, attributes: all })
  }

  get span(): Span {
    return this.#span
  }

  get traceId(): string {
    return this.#span.traceId
  }

  calls(agentId: bigint): void {
    this.#span.set(agentAttributes(agentId))
  }

  /** `metadata` for whoever has the call next. */
  metadata(metadata: Metadata): Metadata {
    return withTraceHeaders(metadata, this.#span.headers)
  }

  /** `call` for whoever has it next. */
  call({ agentId, method, metadata, messages, safety, signal }: Call): Call {
    return { agentId, method, metadata: this.metadata(metadata), messages, safety, signal }
  }

  /** @param error - absent: OK */
  end(error?: KasError): void {
    const code = error?.grpcCode ?? Code.OK
    this.#span.set(rpcStatusAttributes(code))
    this.#span.end(error && isRpcFailure(this.#kind, code) ? failureOf(error) : undefined)
  }
}

/** Serves `stream` as a span of its own. */
export async function traceHandler<T>(
  tracer: Tracer,
  { method, metadata }: Pick<ServerStream, 'method' | 'metadata'>,
  work: (span: RpcSpan) => Promise<T>,
): Promise<T> {
  const span = new RpcSpan(tracer, { kind: 'server', method, parent: metadata })
  try {
    const result = await tracer.within(span.span, () => work(span))
    span.end()
    return result
  } catch (error) {
    span.end(KasError.from(error))
    throw error
  }
}
