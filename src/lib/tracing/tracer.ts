import { AsyncLocalStorage } from 'node:async_hooks'

/** Traces: the work done for one call, its place and its duration. The rest of the program uses only this file. */

/** Names and values by OpenTelemetry's semantic conventions; never a token, cookie or query. */
export type SpanAttributes = Readonly<Record<string, string | number | boolean>>

/** Position of a span, sent to callees (W3C Trace Context) as metadata; empty: nothing is traced. */
export interface TraceHeaders {
  readonly traceparent?: readonly [string]
  readonly tracestate?: readonly [string]
}

/** Headers or metadata of a caller: lower-case names, values in order. */
export type Carrier = Readonly<Record<string, readonly string[] | undefined>>

export interface SpanInit {
  /** `server`: the work that a caller asked for; `client`: the wait for a callee */
  readonly kind: 'server' | 'client'
  /** the caller's headers, or the headers of the enclosing span; absent, or without a span in them: a new trace */
  readonly parent?: Carrier | TraceHeaders | undefined
  /** headers of an unknown caller: the span links to them, but takes over neither trace nor sampling */
  readonly link?: Carrier | undefined
  readonly attributes?: SpanAttributes
}

export interface Span {
  /** 32 hexadecimal digits: for errors and logs; undefined: nothing is traced */
  readonly traceId: string | undefined
  /** headers for callees of this span's work */
  readonly headers: TraceHeaders
  set(attributes: SpanAttributes): void
  /**
   * Ends the span; later attributes are ignored.
   *
   * @param failure - a code of a closed list, or a status: the span failed
   */
  end(failure?: string): void
}

export interface Tracer {
  begin(name: string, init: SpanInit): Span
  /**
   * Runs `work` as part of `span`. Its calls, at any depth, and its timers find the span's headers in `current`. Work
   * that is shared with other callers runs `detached`.
   */
  within<T>(span: Span, work: () => T): T
  /** headers of the span that this code runs within */
  readonly current: TraceHeaders | undefined
}

/** Span of a program without traces: nothing is read, kept or sent for it. */
export const noSpan: Span = { traceId: undefined, headers: {}, set: () => undefined, end: () => undefined }

export const noTracer: Tracer = { begin: () => noSpan, within: (_, work) => work(), current: undefined }

/**
 * Runs `work`, and all that it starts, outside any span. Work that callers share, or that outlives its first caller, is
 * neither part of that caller's trace nor left out with it.
 */
export const detached: <T>(work: () => T) => T = AsyncLocalStorage.snapshot() // at load time, before any call
