import type { Call } from '../../../call/call.ts'
import { KasError } from '../../../lib/errors.ts'
import {
  failureOf,
  httpMethodAttributes,
  httpStatusAttributes,
  isHttpFailure,
  urlServerAttributes,
} from '../../../lib/tracing/attributes.ts'
import { noSpan, noTracer, type Span, type Tracer } from '../../../lib/tracing/tracer.ts'
import type { HttpRequestHeader } from '../../../proto/http/http-message.ts'
import { requestUrl } from '../../../proto/http/request-url.ts'
import type { ServeReply } from '../../tunnels/serve.ts'

/** Query in a span: always empty, since the query may contain secrets. */
const noQuery: HttpRequestHeader['query'] = []

/**
 * Span of one request to the cluster's API server, up to the end of its answer. The API server does not get the span's
 * headers; it gets the caller's, as with upstream's agent.
 */
export class ApiSpan {
  /** span for when nothing is traced */
  static readonly none = new ApiSpan(noSpan)
  readonly #span: Span
  #statusCode = 0

  private constructor(span: Span) {
    this.#span = span
  }

  static begin(
    tracer: Tracer,
    { metadata: parent }: Call,
    { header, server }: { header: HttpRequestHeader; server: URL },
  ): ApiSpan {
    if (tracer === noTracer) return ApiSpan.none
    const { name, attributes } = httpMethodAttributes(header.method)
    const span = tracer.begin(name, {
      kind: 'client',
      parent,
      attributes: {
        ...attributes,
        ...urlServerAttributes(server),
        'url.full': server.origin + server.pathname.replace(/\/+$/, '') + requestUrl(header.urlPath, noQuery),
      },
    })
    return new ApiSpan(span)
  }

  answered(statusCode: number): void {
    if (this === ApiSpan.none) return
    this.#statusCode = statusCode
    this.#span.set(httpStatusAttributes(statusCode))
  }

  /** Ends the span with `reply`. A caller that leaves is not a failure. */
  async follow(reply: Promise<ServeReply>): Promise<ServeReply> {
    if (this === ApiSpan.none) return reply
    try {
      const { done } = await reply
      void done.then(({ error }) => this.#end(error))
    } catch (error) {
      this.#end(KasError.from(error))
    }
    return reply
  }

  #end(error: KasError | undefined): void {
    const refused = isHttpFailure('client', this.#statusCode) ? String(this.#statusCode) : undefined
    this.#span.end(error && error.code !== 'CANCELLED' ? failureOf(error) : refused)
  }
}
