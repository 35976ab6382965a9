import { AsyncLocalStorage } from 'node:async_hooks'
import type { SecureContext } from 'node:tls'
import {
  createTraceState,
  DiagLogLevel,
  diag,
  type Span as OtelSpan,
  type Tracer as OtelTracer,
  ROOT_CONTEXT,
  type SpanContext,
  SpanKind,
  SpanStatusCode,
  TraceFlags,
  trace,
} from '@opentelemetry/api'
import { OTLPTraceExporter } from '@opentelemetry/exporter-trace-otlp-proto'
import {
  defaultResource,
  detectResources,
  resourceAttributesEnvDetector,
  resourceFromAttributes,
} from '@opentelemetry/resources'
import {
  AlwaysOnSampler,
  BatchSpanProcessor,
  ParentBasedSampler,
  type SpanExporter,
  TracerProvider,
} from '@opentelemetry/sdk-trace'
import type { Clock } from '../clock.ts'
import { Deadline } from '../deadline.ts'
import { LimitedLog } from '../limited-log.ts'
import type { Logger } from '../log.ts'
import type { Service } from '../service.ts'
import { abortable } from '../signals.ts'
import { readTraceContext, writeTraceContext } from './trace-context.ts'
import type { Carrier, Span, SpanAttributes, SpanInit, TraceHeaders, Tracer } from './tracer.ts'

/** The only file that loads OpenTelemetry's libraries: it is imported only when traces are switched on. */

export interface OtlpTracingOptions {
  /** receiver of spans, by OTLP over HTTP in protobuf */
  readonly url: string
  /** called at each export; must not reject */
  readonly headers?: () => Promise<Record<string, string>>
  /** absent: the authorities that the library trusts */
  readonly secureContext?: SecureContext
  readonly service: { readonly name: string; readonly version: string; readonly instance: string }
  /** `<name>/<version>/<commit>` */
  readonly product: string
  /** shorter in tests. ms */
  readonly exportEveryMs?: number
  /** bound of one export with its repeats; absent: `flushMs`. ms */
  readonly exportMs?: number | undefined
  /** bound of the last export at the end. ms */
  readonly flushMs?: number
}

/** Ended spans that wait for their export: some seconds of a busy replica. Further spans are lost, and logged. */
const maxQueuedSpans = 8192
/** spans of one export */
const maxExportedSpans = 512
/** the library's own interval. ms */
const defaultExportEveryMs = 5000
/** Bound of the last export at the end (upstream's). ms */
const defaultFlushMs = 5000
/** Exports at once: at the end all waiting spans are exported together. */
const maxExports = maxQueuedSpans / maxExportedSpans + 1
/** Bound of names, which callers may choose: a path may be as long as a request head. */
const maxNameLength = 256
/** Bound of the value of an attribute. */
const maxAttributeLength = 1024
/** Bound of the reason of a failed export, in the log. */
const maxReasonLength = 500
/** ExportResultCode.SUCCESS */
const taken = 0

const kinds = { server: SpanKind.SERVER, client: SpanKind.CLIENT }

/** Makes spans, and sends them to a collector. If that fails, spans are lost, and never a call. */
export class OtlpTracing implements Tracer, Service {
  readonly #provider: TracerProvider
  readonly #tracer: OtelTracer
  readonly #running = new AsyncLocalStorage<Span>()
  readonly #failures: LimitedLog
  readonly #flushMs: number
  #stopped: Promise<void> | undefined

  constructor(components: { log: Logger; clock: Clock }, options: OtlpTracingOptions) {
    const { service, exportEveryMs = defaultExportEveryMs, flushMs = defaultFlushMs, exportMs = flushMs } = options
    this.#flushMs = flushMs
    this.#failures = new LimitedLog(components, 'Spans could not be sent to the collector of traces')
    const resource = defaultResource()
      .merge(detectResources({ detectors: [resourceAttributesEnvDetector] }))
      .merge(
        resourceFromAttributes({
          'service.name': service.name,
          'service.version': service.version,
          'service.instance.id': service.instance,
        }),
      )
    const processor = new BatchSpanProcessor({
      exporter: logging(createExporter(options, exportMs), this.#failures),
      maxQueueSize: maxQueuedSpans,
      maxExportBatchSize: maxExportedSpans,
      scheduledDelayMillis: exportEveryMs,
      exportTimeoutMillis: 2 * exportMs, // later than the exporter's own timeout
    })
    this.#provider = new TracerProvider({
      resource,
      sampler: new ParentBasedSampler({ root: new AlwaysOnSampler() }),
      spanLimits: { attributeValueLengthLimit: maxAttributeLength },
      spanProcessors: [processor],
    })
    this.#tracer = this.#provider.getTracer(service.name, service.version)
  }

  async start(): Promise<void> {
    const warn = (message: string) => this.#failures.warn(message.slice(0, maxReasonLength))
    const silent = () => undefined
    const fail = () => this.#failures.warn('OpenTelemetry failed inside') // its text may hold data of others
    const logger = { error: fail, warn, info: silent, debug: silent, verbose: silent }
    diag.setLogger(logger, { logLevel: DiagLogLevel.WARN, suppressOverrideMessage: true })
  }

  /**
   * Exports the remaining spans, within `flushMs` and while `patience` lasts. Stops last, once all makers of spans have
   * stopped.
   */
  stop(patience?: AbortSignal): Promise<void> {
    this.#stopped ??= this.#stop(patience)
    return this.#stopped
  }

  async #stop(patience?: AbortSignal): Promise<void> {
    const deadline = new Deadline({ ms: this.#flushMs, signals: [patience] })
    try {
      await abortable(this.#provider.shutdown(), deadline.signal)
    } catch (error) {
      this.#failures.warn(deadline.signal.aborted ? 'the program ended before all were taken' : reasonOf(error))
    } finally {
      deadline.end()
    }
  }

  begin(name: string, { kind, parent, link, attributes }: SpanInit): Span {
    // the cause of a client span is a span of this program, so its parent is not remote
    const caller = parent && spanContextOf(parent, kind === 'server')
    const linked = link && spanContextOf(link, true)
    const options = {
      kind: kinds[kind],
      ...(attributes ? { attributes } : {}),
      ...(linked ? { links: [{ context: linked }] } : {}),
    }
    const context = caller ? trace.setSpanContext(ROOT_CONTEXT, caller) : ROOT_CONTEXT
    return new OtlpSpan(this.#tracer.startSpan(name.slice(0, maxNameLength), options, context))
  }

  within<T>(span: Span, work: () => T): T {
    return this.#running.run(span, work)
  }

  get current(): TraceHeaders | undefined {
    return this.#running.getStore()?.headers
  }
}

class OtlpSpan implements Span {
  readonly traceId: string
  readonly headers: TraceHeaders
  readonly #span: OtelSpan
  #ended = false

  constructor(span: OtelSpan) {
    const { traceId, spanId, traceFlags, traceState } = span.spanContext()
    const sampled = (traceFlags & TraceFlags.SAMPLED) !== 0
    this.#span = span
    this.traceId = traceId
    this.headers = writeTraceContext({ traceId, spanId, sampled, state: traceState?.serialize() ?? '' })
  }

  set(attributes: SpanAttributes): void {
    if (!this.#ended) this.#span.setAttributes(attributes)
  }

  end(failure?: string): void {
    if (this.#ended) return
    this.#ended = true
    if (failure !== undefined) {
      this.#span.setAttribute('error.type', failure)
      this.#span.setStatus({ code: SpanStatusCode.ERROR })
    }
    this.#span.end()
  }
}

function spanContextOf(said: Carrier | TraceHeaders, isRemote: boolean): SpanContext | undefined {
  const context = readTraceContext(said)
  if (!context) return undefined
  const { traceId, spanId, sampled, state } = context
  return {
    traceId,
    spanId,
    traceFlags: sampled ? TraceFlags.SAMPLED : TraceFlags.NONE,
    isRemote,
    ...(state === '' ? {} : { traceState: createTraceState(state) }),
  }
}

function createExporter({ url, headers, secureContext, product }: OtlpTracingOptions, timeoutMs: number): SpanExporter {
  return new OTLPTraceExporter({
    url,
    userAgent: product,
    timeoutMillis: timeoutMs,
    concurrencyLimit: maxExports,
    ...(headers ? { headers } : {}),
    ...(secureContext ? { httpAgentOptions: { keepAlive: true, secureContext } } : {}),
  })
}

/**
 * Logs each failed export once, and reports success: the library would log the failure again, with the collector's
 * text.
 */
function logging(exporter: SpanExporter, failures: LimitedLog): SpanExporter {
  return {
    export: (spans, done) =>
      exporter.export(spans, ({ code, error }) => {
        if (code !== taken) failures.warn(reasonOf(error ?? {}))
        done({ code: taken })
      }),
    shutdown: () => exporter.shutdown(),
  }
}

/** Reason without the collector's answer, which may quote the spans. */
function reasonOf(error: unknown): string {
  const { message, code } = error as { message?: unknown; code?: unknown }
  const text = typeof message === 'string' && message !== '' ? message : 'it was not taken'
  return (code === undefined || text.includes(String(code)) ? text : `${text} (${code})`).slice(0, maxReasonLength)
}
