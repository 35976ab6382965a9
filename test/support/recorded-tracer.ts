import { AsyncLocalStorage } from 'node:async_hooks'
import { randomBytes } from 'node:crypto'
import { readTraceContext, writeTraceContext } from '../../src/lib/tracing/trace-context.ts'
import type { Span, SpanAttributes, SpanInit, Tracer } from '../../src/lib/tracing/tracer.ts'

export interface RecordedSpan {
  readonly name: string
  readonly kind: SpanInit['kind']
  readonly traceId: string
  readonly spanId: string
  /** undefined: it is the first of its trace */
  readonly parentId: string | undefined
  /** span id of its link */
  readonly linkedId: string | undefined
  readonly isSampled: boolean
  readonly attributes: SpanAttributes
  readonly ended: boolean
  readonly failure: string | undefined
}

type Recording = { -readonly [K in keyof RecordedSpan]: RecordedSpan[K] }

/** A tracer that keeps all spans, in the order of their begins. */
export class RecordedTracer implements Tracer {
  readonly spans: RecordedSpan[] = []
  readonly #running = new AsyncLocalStorage<Span>()

  get current(): Span['headers'] | undefined {
    return this.#running.getStore()?.headers
  }

  begin(name: string, { kind, parent, link, attributes = {} }: SpanInit): Span {
    const caller = parent && readTraceContext(parent)
    const traceId = caller?.traceId ?? randomBytes(16).toString('hex')
    const spanId = randomBytes(8).toString('hex')
    const parentId = caller?.spanId
    const linkedId = link && readTraceContext(link)?.spanId
    const ids = { traceId, spanId, parentId, linkedId }
    const isSampled = caller?.sampled ?? true
    const span: Recording = { name, kind, ...ids, isSampled, attributes, ended: false, failure: undefined }
    this.spans.push(span)
    return {
      traceId,
      headers: writeTraceContext({ traceId, spanId, sampled: isSampled, state: caller?.state ?? '' }),
      set: (more) => {
        span.attributes = { ...span.attributes, ...more }
      },
      end: (failure) => {
        if (span.ended) throw new Error(`${name} ended twice`)
        span.ended = true
        span.failure = failure
      },
    }
  }

  within<T>(span: Span, work: () => T): T {
    return this.#running.run(span, work)
  }
}
