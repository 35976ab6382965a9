import { create, fromBinary, toBinary } from '@bufbuild/protobuf'
import { anyPack } from '@bufbuild/protobuf/wkt'
import t, { type Test } from 'tap'
import type { Gitlab, GitlabAnswer } from '../../../../../src/kas/directory/gitlab.ts'
import { makeRequest } from '../../../../../src/kas/modules/gitlab-access/make-request.ts'
import { KasError } from '../../../../../src/lib/errors.ts'
import { abortable } from '../../../../../src/lib/signals.ts'
import { HeaderExtraSchema } from '../../../../../src/proto/gen/gitlab_access_pb.ts'
import { HttpRequestSchema, HttpResponseSchema } from '../../../../../src/proto/gen/grpctool_pb.ts'
import { capturedLog } from '../../../../support/captured-log.ts'
import { FakeAgentCall } from '../../../../support/fake-agent-call.ts'
import { ManualClock, settle } from '../../../../support/manual-clock.ts'

const settled = () => settle(10)
const extra = anyPack(HeaderExtraSchema, create(HeaderExtraSchema, { moduleName: 'm' }))
const head = toBinary(
  HttpRequestSchema,
  create(HttpRequestSchema, {
    message: { case: 'header', value: { request: { method: 'PUT', urlPath: '/' }, extra, contentLength: -1n } },
  }),
)
const chunk = toBinary(
  HttpRequestSchema,
  create(HttpRequestSchema, { message: { case: 'data', value: { data: Buffer.from('x') } } }),
)
const trailer = toBinary(HttpRequestSchema, create(HttpRequestSchema, { message: { case: 'trailer', value: {} } }))
const answerOf = (...chunks: string[]): GitlabAnswer => ({
  statusCode: 200,
  statusText: '',
  rawHeaders: [],
  body: (async function* () {
    for (const text of chunks) yield Buffer.from(text)
  })(),
})

/** An agent that sends the messages of the test. */
function start(t: Test, passToGitlab: Gitlab['passToGitlab']) {
  const clock = new ManualClock()
  let wake = Promise.withResolvers<void>()
  const queue: (Uint8Array | undefined)[] = []
  const send = async (...messages: (Uint8Array | undefined)[]) => {
    queue.push(...messages)
    wake.resolve()
    await settled()
  }
  async function* messages() {
    for (;;) {
      while (queue.length === 0) {
        await wake.promise
        wake = Promise.withResolvers()
      }
      const message = queue.shift()
      if (!message) return
      yield message
    }
  }
  const call = new FakeAgentCall({ messages: messages() })
  const sent = () => call.sent.map((message) => fromBinary(HttpResponseSchema, message).message.case)
  const done = call.servedBy(
    makeRequest({ gitlab: { passToGitlab }, clock, log: capturedLog().log }, { maxSilenceMs: 1000 }),
  )
  t.teardown(async () => {
    await send(undefined)
    await done
    if (clock.pending > 0) throw new Error('a timer is left behind')
  })
  return { clock, call, sent, send, done }
}

const takeAll: Gitlab['passToGitlab'] = async ({ body }, take) => {
  for await (const _ of body ?? []);
  await take(answerOf('a', 'b'))
}

t.test('an agent that falls silent before its request is whole', async (t) => {
  const late = { grpcCode: 4, message: 'the request did not go on for 1000 ms' }
  for (const messages of [[], [head], [head, chunk]]) {
    const { clock, send, done } = start(t, takeAll)
    await send(...messages)
    clock.advance(1000)
    t.match(await done, late)
  }
})

// wire: access.answer
t.test('an agent may be silent once its request is whole, and need not half-close', async (t) => {
  const { promise, resolve } = Promise.withResolvers<void>()
  const { clock, send, done, sent } = start(t, async (request, take, signal) => {
    await takeAll(request, async () => undefined, signal)
    await promise
    await take(answerOf('a'))
  })
  await send(head, chunk)
  clock.advance(999)
  await send(chunk)
  clock.advance(999)
  await send(trailer)
  clock.advance(100_000)
  await settled()
  resolve()
  t.equal(await done, 'OK')
  t.strictSame(sent(), ['header', 'data', 'trailer'])
})

t.test('an agent that does not read its answer', async (t) => {
  const { clock, call, send, done, sent } = start(t, takeAll)
  call.stall()
  await send(head, trailer)
  t.strictSame(sent(), ['header'])
  clock.advance(1000)
  t.match(await done, { grpcCode: 4, message: 'the answer was not read for 1000 ms' })
})

// wire: access.failure
t.test('what fails at GitLab, and who leaves', async (t) => {
  const busy = start(t, () => Promise.reject(new KasError({ code: 'GITLAB_BUSY', waitedMs: 20_000 })))
  await busy.send(head, trailer)
  t.match(await busy.done, { grpcCode: 14, message: /^gRPC -> HTTP: Too many calls wait for GitLab/ })
  const left = start(t, (_, __, signal) => abortable(new Promise(() => undefined), signal))
  await left.send(head, trailer)
  const reason = new KasError({ code: 'CANCELLED' })
  left.call.cut(reason)
  t.equal(await left.done, reason)
  const broken = start(t, () => Promise.reject(new TypeError('x')))
  await broken.send(head, trailer)
  t.match(await broken.done, { code: 'INTERNAL' })
})
