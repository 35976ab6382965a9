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

/** Spans of gRPC calls. The metadata of a call names its parent span: each stage puts its own span in that place. */

export interface RpcSpanInit {
  readonly kind: 'server' | 'client'
  /** `/package.Service/Method` */
  readonly method: string
  /** false: the method counts as an unknown one */
  readonly isKnown?: boolean
  /** metadata of the caller, or of the call on its way */
  readonly parent?: Metadata
  /** metadata of an unknown caller: the span links to it, but takes over neither its trace nor its sampling */
  readonly link?: Metadata
  readonly attributes?: SpanAttributes
}

/** The span of one call. */
export class RpcSpan {
  /** no tracing */
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

  /** `metadata` for the next stage of the call. */
  metadata(metadata: Metadata): Metadata {
    return this === RpcSpan.none ? metadata : withTraceHeaders(metadata, this.span.headers)
  }

  /** `call` for its next stage. */
  call(call: Call): Call {
    if (this === RpcSpan.none) return call
    // by name: a spread would miss the getters of a class that implements Call
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
      observer: call.observer,
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

/** Parts of a call that its span names. */
interface ServedCall {
  /** `/package.Service/Method` */
  readonly method: string
  readonly metadata: Metadata
}

/** Runs `work` in a server span of its own. */
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

/** Admits and serves a call of one of kas' or agentk's own methods. */
export interface Admission<A, T> {
  /** returns the caller, or throws */
  readonly admit: () => Promise<A>
  readonly serve: (caller: A, span: RpcSpan) => Promise<T>
}

/**
 * Does the same as `traceHandler`, once the caller is known. If the caller is not admitted, the span begins a trace of
 * its own. Without tracing no state is kept for the call, which may be open for days.
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
