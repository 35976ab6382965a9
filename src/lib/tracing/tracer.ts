import { AsyncLocalStorage } from 'node:async_hooks'

/** Traces: what was done for one call, where, and how long it took. The rest of the program sees this file alone. */

/** Names and values by OpenTelemetry's semantic conventions; never a token, cookie or query. */
export type SpanAttributes = Readonly<Record<string, string | number | boolean>>

/** Where a span stands, as callees get it (W3C Trace Context), in the form of metadata; empty: nothing is traced. */
export interface TraceHeaders {
  readonly traceparent?: readonly [string]
  readonly tracestate?: readonly [string]
}

/** Headers or metadata of a caller: lower-case names, values in order. */
export type Carrier = Readonly<Record<string, readonly string[] | undefined>>

export interface SpanInit {
  /** `server`: the work that a caller asked for; `client`: the wait for a callee */
  readonly kind: 'server' | 'client'
  /** what the caller said, or the headers of the span that this one is part of; absent, or without: a new trace */
  readonly parent?: Carrier | TraceHeaders | undefined
  /** what a caller said whom nobody knows yet: named by the span, but neither its trace nor its sampling is taken over */
  readonly link?: Carrier | undefined
  readonly attributes?: SpanAttributes
}

export interface Span {
  /** 32 hexadecimal digits: for errors and logs; undefined: nothing is traced */
  readonly traceId: string | undefined
  /** for whom this span's work is handed on to */
  readonly headers: TraceHeaders
  set(attributes: SpanAttributes): void
  /**
   * Ends it; what is said later is ignored.
   *
   * @param failure - a code of a closed list, or a status: the span failed
   */
  end(failure?: string): void
}

export interface Tracer {
  begin(name: string, init: SpanInit): Span
  /**
   * Runs `work` as part of `span`: whom it asks beside the call, at whatever depth, finds that in `current`, and so do
   * timers that it sets. What it begins for others too runs `detached`.
   */
  within<T>(span: Span, work: () => T): T
  /** of the span that this code runs within */
  readonly current: TraceHeaders | undefined
}

/** Nothing is traced: nothing is read, kept or sent for it. */
export const noSpan: Span = { traceId: undefined, headers: {}, set: () => undefined, end: () => undefined }

export const noTracer: Tracer = { begin: () => noSpan, within: (_, work) => work(), current: undefined }

/**
 * Runs `work` as part of no span, and all that it goes on with: what is shared by callers, or outlives the one that
 * began it, is not of that one's trace, and not silenced with it.
 */
export const detached: <T>(work: () => T) => T = AsyncLocalStorage.snapshot() // while the program loads, before any call
