import { type Metadata, noMetadata } from '../../../../call/call.ts'
import type { KasError } from '../../../../lib/errors.ts'
import { parseHostPort } from '../../../../lib/host-port.ts'
import {
  agentAttributes,
  failureOf,
  httpMethodAttributes,
  httpStatusAttributes,
  isHttpFailure,
  serverAttributes,
} from '../../../../lib/tracing/attributes.ts'
import { noSpan, noTracer, type Span, type SpanAttributes, type Tracer } from '../../../../lib/tracing/tracer.ts'
import type { Exchange } from './exchange.ts'
import type { RequestOutcome } from './metrics.ts'

/**
 * Span of a request, which ends with its answer or its upgraded connection. Anybody may call, so the span begins a
 * trace of its own, with a link to the caller's (upstream's public endpoint).
 */
export class RequestSpan {
  /** span of a request that is not traced */
  static readonly none = new RequestSpan(noSpan)
  readonly span: Span

  private constructor(span: Span) {
    this.span = span
  }

  /** @param prefix - prefix of the served paths, ends with `/` */
  static begin(tracer: Tracer, { request, address }: Exchange, prefix: string): RequestSpan {
    if (tracer === noTracer) return RequestSpan.none
    const { headers, url = '', socket } = request
    const { name, attributes } = httpMethodAttributes(request.method as string)
    const route = url.startsWith(prefix) ? `${prefix}*` : undefined
    const span = tracer.begin(route === undefined ? name : `${name} ${route}`, {
      kind: 'server',
      link: { traceparent: asList(headers.traceparent), tracestate: asList(headers.tracestate) },
      attributes: {
        ...attributes,
        ...(route === undefined ? {} : { 'http.route': route }),
        'url.scheme': 'encrypted' in socket ? 'https' : 'http',
        ...pathAttributes(url),
        ...hostAttributes(headers.host),
        ...(headers['user-agent'] === undefined ? {} : { 'user_agent.original': headers['user-agent'] }),
        ...(address === undefined ? {} : { 'client.address': address }),
        ...(socket.remoteAddress === undefined ? {} : { 'network.peer.address': socket.remoteAddress }),
      },
    })
    return new RequestSpan(span)
  }

  get traceId(): string | undefined {
    return this.span.traceId
  }

  /** Metadata for the call that is made for the request. */
  get metadata(): Metadata {
    return this === RequestSpan.none ? noMetadata : { ...this.span.headers }
  }

  calls(agentId: bigint): void {
    if (this !== RequestSpan.none) this.span.set(agentAttributes(agentId))
  }

  /** @param error - error with which the request ended; undefined: the cluster's answer */
  end({ statusCode }: Exchange, outcome: RequestOutcome, error: KasError | undefined): void {
    if (this === RequestSpan.none) return
    this.span.set({ 'kas.outcome': outcome, ...(statusCode === undefined ? {} : httpStatusAttributes(statusCode)) })
    const hasFailed = outcome === 'cut' || (outcome !== 'left' && isHttpFailure('server', statusCode ?? 0))
    const failure = error ? failureOf(error) : String(statusCode ?? outcome)
    this.span.end(hasFailed ? failure : undefined)
  }
}

/** Drops the query, which may have secrets. */
function pathAttributes(url: string): SpanAttributes {
  return url.startsWith('/') ? { 'url.path': url.split('?', 1)[0] ?? '' } : {}
}

function hostAttributes(host: string | undefined): SpanAttributes {
  if (host === undefined) return {}
  const named = parseHostPort(host)
  return named ? serverAttributes(named.host, named.port) : serverAttributes(host, 0)
}

function asList(header: string | string[] | undefined): readonly string[] {
  return header === undefined ? [] : [header].flat()
}
