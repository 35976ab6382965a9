import { create, fromBinary, type MessageInitShape, toBinary } from '@bufbuild/protobuf'
import { type Any, anyPack } from '@bufbuild/protobuf/wkt'
import type { Test } from 'tap'
import { makeRequest } from '../../../src/kas/modules/gitlab-access/make-request.ts'
import { systemClock } from '../../../src/lib/clock.ts'
import { HeaderExtraSchema } from '../../../src/proto/gen/gitlab_access_pb.ts'
import { HttpRequestSchema, HttpResponseSchema } from '../../../src/proto/gen/grpctool_pb.ts'
import { gitlabAccessMethod } from '../../../src/proto/http/http-over-grpc.ts'
import { startAgentsServer } from '../../support/agents-server.ts'
import { FakeAgent } from '../../support/fake-agent.ts'
import { GitlabDouble, type GitlabDoubleOptions } from '../../support/gitlab/gitlab-double.ts'
import { type GitlabSideOptions, startGitlabSide } from '../../support/gitlab/gitlab-side.ts'
import { anyRate } from '../../support/method-rate.ts'

export const modules = '/internal/kubernetes/modules'

/** Starts a server for agents that passes their requests to a GitLab. */
export async function startAccess(t: Test, options: { gitlab?: GitlabDoubleOptions; side?: GitlabSideOptions } = {}) {
  const gitlab = await GitlabDouble.start(t, options.gitlab)
  const { directory, log, lines } = await startGitlabSide(t, gitlab, options.side)
  const serve = makeRequest({ gitlab: directory, log, clock: systemClock })
  const { tracer } = options.side ?? {}
  const { port } = await startAgentsServer(t, {
    components: {
      directory,
      log,
      ...(tracer ? { tracer } : {}),
      methods: {
        [gitlabAccessMethod]: { type: 'bidi_stream', patient: false, rate: anyRate, serve },
      },
    },
  })
  const dial = async (token = 'glagent-prod') => {
    const agent = await FakeAgent.dial(port, token)
    t.teardown(() => agent.close())
    return agent
  }
  return { gitlab, directory, lines, dial }
}

type RequestInit = MessageInitShape<typeof HttpRequestSchema>['message']

/** Returns one message of a request, written by the generated code. */
export function messageOf(message: NonNullable<RequestInit>): Uint8Array {
  return toBinary(HttpRequestSchema, create(HttpRequestSchema, { message }))
}

export const data = (bytes: Uint8Array | string) =>
  messageOf({ case: 'data', value: { data: typeof bytes === 'string' ? Buffer.from(bytes) : bytes } })
export const trailer = messageOf({ case: 'trailer', value: {} })

export interface HeadInit {
  readonly moduleName?: string
  readonly method?: string
  readonly path?: string
  readonly query?: Readonly<Record<string, readonly string[]>>
  readonly header?: Readonly<Record<string, readonly string[]>>
  readonly contentLength?: number
  readonly extra?: Any | undefined
}

export function headOf(init: HeadInit = {}): Uint8Array {
  const { moduleName = 'remote_development', method = 'GET', path = '/reconcile', query = {}, header = {} } = init
  const values = (map: Readonly<Record<string, readonly string[]>>) =>
    Object.fromEntries(
      Object.entries(map).map(([name, list]) => [name, { value: list.map((value) => Buffer.from(value, 'latin1')) }]),
    )
  const extra = 'extra' in init ? init.extra : anyPack(HeaderExtraSchema, create(HeaderExtraSchema, { moduleName }))
  return messageOf({
    case: 'header',
    value: {
      request: { method, urlPath: path, query: values(query), header: values(header) },
      ...(extra ? { extra } : {}),
      ...(init.contentLength === undefined ? {} : { contentLength: BigInt(init.contentLength) }),
    },
  })
}

/** Opens a call of MakeRequest. */
export function openAccess(agent: FakeAgent, token = 'glagent-prod') {
  const stream = agent.session.open({ method: gitlabAccessMethod, metadata: { authorization: [`Bearer ${token}`] } })
  const messages = stream.messages[Symbol.asyncIterator]()
  const next = async () => {
    const { value, done } = await messages.next()
    return done ? undefined : fromBinary(HttpResponseSchema, value).message
  }
  return {
    stream,
    next,
    send: async (...parts: Uint8Array[]) => {
      for (const part of parts) await stream.send(part)
    },
    /** Returns the whole answer, and its messages in order. */
    async answer() {
      const kinds: string[] = []
      const chunks: Uint8Array[] = []
      let statusCode = 0
      let status = ''
      let header: Record<string, string[]> = {}
      for (let message = await next(); message; message = await next()) {
        kinds.push(String(message.case))
        if (message.case === 'data') chunks.push(message.value.data)
        if (message.case !== 'header') continue
        const { response } = message.value
        statusCode = response?.statusCode ?? 0
        status = response?.status ?? ''
        header = Object.fromEntries(
          Object.entries(response?.header ?? {}).map(([name, { value }]) => [
            name,
            value.map((bytes) => Buffer.from(bytes).toString('latin1')),
          ]),
        )
      }
      const { error } = await stream.done
      return { kinds, statusCode, status, header, body: Buffer.concat(chunks), error }
    },
  }
}

/** Sends a whole request with a half-close. Returns its answer. */
export async function access(agent: FakeAgent, head: HeadInit = {}, ...rest: Uint8Array[]) {
  const { send, stream, answer } = openAccess(agent)
  await send(headOf(head), ...(rest.length > 0 ? rest : [trailer]))
  stream.end()
  return await answer()
}
