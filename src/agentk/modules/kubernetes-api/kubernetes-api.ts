import { type Call, noMetadata } from '../../../call/call.ts'
import { KasError } from '../../../lib/errors.ts'
import type { Tracer } from '../../../lib/tracing/tracer.ts'
import type { HttpRequestHeader } from '../../../proto/http/http-message.ts'
import { decodeHttpRequest } from '../../../proto/http/http-over-grpc.ts'
import { HttpRequestMessages } from '../../../proto/http/http-request-messages.ts'
import { requestUrl } from '../../../proto/http/request-url.ts'
import type { ApiClient } from '../../cluster/api-client.ts'
import type { ApiExchange } from '../../cluster/api-exchange.ts'
import type { ApiRequest } from '../../cluster/api-request.ts'
import type { Serve, ServeReply } from '../../tunnels/serve.ts'
import { ApiSpan } from './api-span.ts'
import { planRequest } from './request-headers.ts'
import { responseHeader } from './response-header.ts'
import { ResponseMessages } from './response-messages.ts'
import { forwardUpgrade } from './upgrade.ts'

const metadata = Promise.resolve(noMetadata)

/** One request to the API server. */
interface AskedRequest {
  readonly call: Call
  readonly messages: HttpRequestMessages<HttpRequestHeader>
  readonly header: HttpRequestHeader
  readonly span: ApiSpan
}

/**
 * Serves KubernetesApi.MakeRequest: an HTTP request of kas, made at the cluster's API server, answered as it comes.
 *
 * @see doc/reference/tunnel-protocol.md 1.3 and 1.4
 */
export class KubernetesApi {
  readonly #api: ApiClient
  readonly #tracer: Tracer
  readonly #requestVia: string
  readonly #responseVia: string

  /**
   * @param options.product - `gitlab-agent/<version>/<commit>`, for Via
   */
  constructor(components: { api: ApiClient; tracer: Tracer }, options: { product: string }) {
    this.#api = components.api
    this.#tracer = components.tracer
    this.#requestVia = `gRPC/1.0 ${options.product}`
    this.#responseVia = `1.1 ${options.product}`
  }

  /** @throws KasError when the request is refused before it is made */
  readonly forward: Serve = async (call) => {
    const messages = new HttpRequestMessages(call.messages, decodeHttpRequest)
    const header = await messages.header()
    const span = ApiSpan.begin(this.#tracer, call, { header, server: this.#api.access.server })
    return span.follow(this.#make({ call, messages, header, span }))
  }

  async #make(asked: AskedRequest): Promise<ServeReply> {
    const { call, messages, header, span } = asked
    const { impersonation } = this.#api.access
    const plan = planRequest(header, { impersonation, via: this.#requestVia })
    const request = { method: header.method, path: requestUrl(header.urlPath, header.query), headers: plan.headers }
    if (plan.upgrade) return forwardUpgrade(this.#api, call, messages, request, { via: this.#responseVia, span })
    if (plan.contentLength === 0) return this.#send(asked, request)
    if (plan.contentLength === undefined && !(await messages.hasBody())) return this.#send(asked, request)
    return this.#send(asked, { ...request, body: messages.body() })
  }

  #send({ call, messages, span }: AskedRequest, request: ApiRequest): ServeReply {
    const { signal } = call
    signal.throwIfAborted()
    const answer = new ResponseMessages({
      pause: () => exchange.pause(),
      resume: () => exchange.resume(),
      cancel: () => exchange.abort(new KasError({ code: 'CANCELLED' })),
    })
    const onAbort = () => exchange.abort(signal.reason)
    const settled = () => {
      signal.removeEventListener('abort', onAbort)
      // a body that the server did not wait for
      if (request.body) void messages.discard({ bodyAllowed: true }).catch(() => undefined)
    }
    const exchange: ApiExchange = this.#api.send(request, {
      onHead: (code, text, headers) => {
        span.answered(code)
        answer.header(responseHeader(code, text, headers, this.#responseVia))
      },
      onData: (chunk) => answer.data(chunk),
      onEnd: () => {
        settled()
        answer.end()
      },
      onError: (error) => {
        settled()
        answer.fail(error)
      },
    })
    signal.addEventListener('abort', onAbort, { once: true })
    if (!request.body) void messages.discard({ bodyAllowed: false }).catch((error: unknown) => exchange.abort(error))
    return { metadata, messages: answer, done: answer.done }
  }
}
