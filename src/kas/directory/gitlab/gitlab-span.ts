import { KasError } from '../../../lib/errors.ts'
import {
  httpMethodAttributes,
  httpStatusAttributes,
  isHttpFailure,
  urlServerAttributes,
} from '../../../lib/tracing/attributes.ts'
import type { Span, Tracer } from '../../../lib/tracing/tracer.ts'

/** One request to GitLab. */
export interface TracedRequest {
  readonly method: string
  /** GitLab's address, without `/` at its end */
  readonly base: string
  /** below `base`, one of a few */
  readonly path: string
}

/** The span of one request to GitLab. */
class GitlabSpan {
  readonly #span: Span

  private constructor(span: Span) {
    this.#span = span
  }

  static begin(tracer: Tracer, { method, base, path }: TracedRequest): GitlabSpan {
    const { name, attributes } = httpMethodAttributes(method)
    const span = tracer.begin(`${name} ${path}`, {
      kind: 'client',
      parent: tracer.current,
      attributes: {
        ...attributes,
        ...urlServerAttributes(new URL(base)),
        'url.full': base + path,
        'url.template': path,
      },
    })
    return new GitlabSpan(span)
  }

  /** Trace headers for GitLab; empty: the request is not traced. */
  get fields(): Readonly<Record<string, string>> {
    const { traceparent, tracestate } = this.#span.headers
    return traceparent ? { traceparent: traceparent[0], ...(tracestate ? { tracestate: tracestate[0] } : {}) } : {}
  }

  /**
   * Replaces trace headers of another span by this one's, if it is traced.
   *
   * @param headers - name, value, name, value
   */
  lines(headers: readonly string[]): readonly string[] {
    const own = Object.entries(this.fields).flat()
    if (own.length === 0) return headers
    const others = headers.filter((_, i) => !/^trace(?:parent|state)$/i.test(headers[i - (i % 2)] as string))
    return [...others, ...own]
  }

  answered(statusCode: number): void {
    this.#span.set(httpStatusAttributes(statusCode))
    this.#span.end(isHttpFailure('client', statusCode) ? String(statusCode) : undefined)
  }

  /** Ends the span. A cancelled request is no failure. */
  failed(error: unknown): void {
    const { code } = KasError.from(error)
    this.#span.end(code === 'CANCELLED' ? undefined : code)
  }
}

/**
 * Sends a request in a span of its own, a child of the current one.
 *
 * @param send - reports the answer to the span, unless it throws
 */
export async function traceRequest<T>(
  tracer: Tracer,
  request: TracedRequest,
  send: (span: GitlabSpan) => Promise<T>,
): Promise<T> {
  const span = GitlabSpan.begin(tracer, request)
  try {
    return await send(span)
  } catch (error) {
    span.failed(error)
    throw error
  }
}
