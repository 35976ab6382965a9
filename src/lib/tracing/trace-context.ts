import type { Carrier, TraceHeaders } from './tracer.ts'

/** A caller's span, from `traceparent` and `tracestate`. */
export interface TraceContext {
  readonly traceId: string
  readonly spanId: string
  readonly sampled: boolean
  /** state of other tracing systems, passed on; empty: there is none */
  readonly state: string
}

/** version, trace id, span id, flags; versions after 00 may have more fields behind them */
const form = /^([0-9a-f]{2})-([0-9a-f]{32})-([0-9a-f]{16})-([0-9a-f]{2})(-.*)?$/
const forbiddenVersion = 'ff'
const zeros = /^0+$/
/** length that a receiver must be able to pass on (W3C Trace Context 3.3.1.5); a longer state is left out */
const maxStateLength = 512

/**
 * Reads a caller's span from its headers (W3C Trace Context 3.2, 3.3).
 *
 * @returns undefined: there is no usable span, so a new trace begins
 */
export function readTraceContext(carrier: Carrier | TraceHeaders): TraceContext | undefined {
  const { traceparent = [], tracestate = [] } = carrier as Carrier
  const [, version, traceId = '', spanId = '', flags = '', more] = form.exec(traceparent[0] ?? '') ?? []
  if (version === undefined || traceparent.length > 1 || version === forbiddenVersion) return undefined
  if ((version === '00' && more !== undefined) || zeros.test(traceId) || zeros.test(spanId)) return undefined
  const state = tracestate.join(',')
  return {
    traceId,
    spanId,
    sampled: (Number.parseInt(flags, 16) & 1) === 1,
    state: state.length > maxStateLength ? '' : state,
  }
}

export function writeTraceContext({ traceId, spanId, sampled, state }: TraceContext): TraceHeaders {
  const traceparent = [`00-${traceId}-${spanId}-${sampled ? '01' : '00'}`] as const
  return state === '' ? { traceparent } : { traceparent, tracestate: [state] }
}

/** Returns `metadata` for a callee, with the caller's trace headers replaced by `headers`. */
export function withTraceHeaders<V extends readonly string[]>(
  metadata: Readonly<Record<string, V>>,
  headers: TraceHeaders,
): Readonly<Record<string, V | readonly string[]>> {
  const { traceparent: _, tracestate: __, ...rest } = metadata
  return { ...rest, ...headers } as Record<string, V | readonly string[]>
}
