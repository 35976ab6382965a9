import { type Call, noMetadata } from '../../../call/call.ts'
import { KasError } from '../../../lib/errors.ts'
import type { HttpRequestHeader } from '../../../proto/http/http-message.ts'
import { decodeHttpRequest, kubernetesApiMethod } from '../../../proto/http/http-over-grpc.ts'
import { HttpRequestMessages } from '../../../proto/http/http-request-messages.ts'
import { requestUrl } from '../../../proto/http/request-url.ts'
import type { ApiClient } from '../../cluster/api-client.ts'
import type { ApiExchange } from '../../cluster/api-exchange.ts'
import type { ApiRequest } from '../../cluster/api-request.ts'
import type { AgentkHost, AgentkModule } from '../../module.ts'
import type { Serve, ServeReply } from '../../tunnels/serve.ts'
import { ApiSpan } from './api-span.ts'
import { type PlannedRequest, planRequest, responseHeader } from './passed-headers.ts'
import { ResponseMessages } from './response-messages.ts'
import { forwardUpgrade } from './upgrade.ts'

const metadata = Promise.resolve(noMetadata)

type ApiHost = Pick<AgentkHost, 'api' | 'identities' | 'tracer'>

/** Serves kas's requests to the cluster's API server. */
export function createKubernetesApi({ self, ...host }: ApiHost & Pick<AgentkHost, 'self'>): AgentkModule {
  return { methods: new Map([[kubernetesApiMethod, serveKubernetesApi(host, { product: self.product })]]) }
}

/**
 * Serves KubernetesApi.MakeRequest: sends kas's HTTP request to the cluster's API server, and streams the answer.
 *
 * @param options.product - `gitlab-agent/<version>/<commit>`, for Via
 * @see doc/reference/tunnel-protocol.md 1.3 and 1.4
 */
export function serveKubernetesApi({ api, identities, tracer }: ApiHost, { product }: { product: string }): Serve {
  const via = { request: `gRPC/1.0 ${product}`, response: `1.1 ${product}` }
  /** @throws KasError when the request is refused before it is made */
  return async (call) => {
    const messages = new HttpRequestMessages(call.messages, decodeHttpRequest)
    const header = await messages.header()
    const span = ApiSpan.begin(tracer, call, { header, server: api.access.server })
    return span.follow(makeRequest({ api, identities, call, messages, header, span, via }))
  }
}

/** One request to the API server. */
interface Asked {
  readonly api: ApiClient
  readonly identities: AgentkHost['identities']
  readonly call: Call
  readonly messages: HttpRequestMessages<HttpRequestHeader>
  readonly header: HttpRequestHeader
  readonly span: ApiSpan
  readonly via: { readonly request: string; readonly response: string }
}

async function makeRequest(asked: Asked): Promise<ServeReply> {
  const { api, call, messages, header, span, via } = asked
  const plan = planOrRefuse(asked)
  if (plan instanceof KasError) return refuse(asked, plan)
  const path = requestUrl(header.urlPath, header.query, header.rawQuery)
  header.query.length = 0 // frees a long query before the call ends
  const request = { method: header.method, path, headers: plan.headers }
  if (plan.upgrade) return forwardUpgrade(api, call, messages, request, { via: via.response, span })
  if (plan.contentLength === 0) return send(asked, request)
  if (plan.contentLength === undefined && !(await messages.hasBody())) return send(asked, request)
  return send(asked, { ...request, body: messages.body() })
}

/** Plans the request. @returns IDENTITY_REFUSED, to answer the caller with. @throws other errors of `planRequest` */
function planOrRefuse({ header, identities, via }: Asked): PlannedRequest | KasError {
  try {
    return planRequest(header, { identities, via: via.request })
  } catch (error) {
    if (error instanceof KasError && error.code === 'IDENTITY_REFUSED') return error
    throw error
  }
}

/** Answers in place of the API server, so that every kas passes the refusal on. */
function refuse({ messages, header, span, via }: Asked, { message, httpStatus }: KasError): ServeReply {
  const status = { kind: 'Status', apiVersion: 'v1', metadata: {}, status: 'Failure', message, reason: 'Forbidden' }
  const body = Buffer.from(`${JSON.stringify({ ...status, code: httpStatus })}\n`)
  const nothing = () => undefined
  const answer = new ResponseMessages({ pause: nothing, resume: nothing, cancel: nothing })
  const headers = ['Content-Type', 'application/json', 'Content-Length', String(body.length)]
  span.answered(httpStatus)
  answer.header(responseHeader(httpStatus, 'Forbidden', headers, via.response))
  if (header.method !== 'HEAD') answer.data(body)
  answer.end()
  void messages.discard({ bodyAllowed: true }).catch(nothing)
  return { metadata, messages: answer, done: answer.done }
}

function send({ api, call, messages, span, via }: Asked, request: ApiRequest): ServeReply {
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
    // the server may have answered before the body ended
    if (request.body) void messages.discard({ bodyAllowed: true }).catch(() => undefined)
  }
  const exchange: ApiExchange = api.send(request, {
    onHead: (code, text, headers) => {
      span.answered(code)
      answer.header(responseHeader(code, text, headers, via.response))
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
