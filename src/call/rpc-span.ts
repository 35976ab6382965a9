import { Code, KasError } from '../lib/errors.ts'
import {
  agentAttributes,
  failureOf,
  isRpcFailure,
  rpcMethodAttributes,
  rpcStatusAttributes,
} from '../lib/tracing/attributes.ts'
import { withTraceHeaders } from '../lib/tracing/trace-context.ts'
import { noSpan, noTracer, type Span, type SpanAttributes, type Tracer } from '../lib/tracing/tracer.ts'
import type { Call, Metadata } from './call.ts'

/** Spans of gRPC calls. A call's metadata says of which span it is part: each stage puts its own in that place. */

export interface RpcSpanInit {
  readonly kind: 'server' | 'client'
  /** `/package.Service/Method` */
  readonly method: string
  /** false: it counts as one of those that nobody knows */
  readonly isKnown?: boolean
  /** of the caller, or of the call on its way */
  readonly parent?: Metadata
  /** of a caller that nobody knows: named, but neither its trace nor its sampling is taken over */
  readonly link?: Metadata
  readonly attributes?: SpanAttributes
}

/** The span of one call. */
export class RpcSpan {
  /** nothing is traced */
  static readonly none = new RpcSpan(noSpan, 'server')

  readonly span: Span
  readonly #kind: RpcSpanInit['kind']

  private constructor(span: Span, kind: RpcSpanInit['kind']) {
    this.span = span
    this.#kind = kind
  }

  static begin(tracer: Tracer, init: RpcSpanInit): RpcSpan {
    if (tracer === noTracer) return RpcSpan.none
    const { kind, method, isKnown = true, parent, link, attributes } = init
    const { name, attributes: own } = rpcMethodAttributes(method, isKnown)
    return new RpcSpan(tracer.begin(name, { kind, parent, link, attributes: { ...own, ...attributes } }), kind)
  }

  get traceId(): string | undefined {
    return this.span.traceId
  }

  calls(agentId: bigint): void {
    if (this !== RpcSpan.none) this.span.set(agentAttributes(agentId))
  }

  /** `metadata` for whoever has the call next. */
  metadata(metadata: Metadata): Metadata {
    return this === RpcSpan.none ? metadata : withTraceHeaders(metadata, this.span.headers)
  }

  /** `call` for whoever has it next. */
  call(call: Call): Call {
    if (this === RpcSpan.none) return call
    // by name: what some calls are made of is not theirs alone
    const next: { [Name in keyof Required<Call>]: Call[Name] } = {
      agentId: call.agentId,
      method: call.method,
      metadata: this.metadata(call.metadata),
      messages: call.messages,
      safety: call.safety,
      caller: call.caller,
      isWatch: call.isWatch ?? false,
      isLog: call.isLog ?? false,
      reopens: call.reopens ?? false,
      waitsForAway: call.waitsForAway ?? false,
      record: call.record,
      signal: call.signal,
    }
    return next as Call
  }

  /** @param error - absent: OK */
  end(error?: KasError): void {
    if (this === RpcSpan.none) return
    const code = error?.grpcCode ?? Code.OK
    this.span.set(rpcStatusAttributes(code))
    this.span.end(error && isRpcFailure(this.#kind, code) ? failureOf(error) : undefined)
  }
}

/** What of a call its span names. */
interface ServedCall {
  /** `/package.Service/Method` */
  readonly method: string
  readonly metadata: Metadata
}

/** Serves it as a span of its own. */
export function traceHandler<T>(tracer: Tracer, stream: ServedCall, work: (span: RpcSpan) => Promise<T>): Promise<T> {
  return tracer === noTracer ? work(RpcSpan.none) : tracedHandler(tracer, stream, work)
}

async function tracedHandler<T>(
  tracer: Tracer,
  { method, metadata }: ServedCall,
  work: (span: RpcSpan) => Promise<T>,
): Promise<T> {
  const span = RpcSpan.begin(tracer, { kind: 'server', method, parent: metadata })
  try {
    const result = await tracer.within(span.span, () => work(span))
    span.end()
    return result
  } catch (error) {
    span.end(KasError.from(error))
    throw error
  }
}

/** What came for one of our methods, and who made it. */
export interface Admission<A, T> {
  /** who calls, or throws */
  readonly admit: () => Promise<A>
  readonly serve: (caller: A, span: RpcSpan) => Promise<T>
}

/**
 * As `traceHandler`, once it is known who calls; of a caller that is not let in the span begins a trace of its own.
 * Where nothing is traced nothing is kept for it: a call may be open for days.
 */
export function traceAdmitted<A, T>(tracer: Tracer, stream: ServedCall, admission: Admission<A, T>): Promise<T> {
  if (tracer !== noTracer) return tracedAdmission(tracer, stream, admission)
  const { admit, serve } = admission
  return admit().then((caller) => serve(caller, RpcSpan.none))
}

async function tracedAdmission<A, T>(
  tracer: Tracer,
  stream: ServedCall,
  { admit, serve }: Admission<A, T>,
): Promise<T> {
  let caller: A
  try {
    caller = await admit()
  } catch (error) {
    RpcSpan.begin(tracer, { kind: 'server', method: stream.method, link: stream.metadata }).end(KasError.from(error))
    throw error
  }
  return await traceHandler(tracer, stream, (span) => serve(caller, span))
}
