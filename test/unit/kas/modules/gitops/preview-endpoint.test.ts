import { create, type MessageInitShape, toBinary } from '@bufbuild/protobuf'
import t from 'tap'
import type { AgentId } from '../../../../../src/call/call.ts'
import type { AgentConfiguration } from '../../../../../src/kas/agent-config/agent-config-reader.ts'
import type { AskedPreview } from '../../../../../src/kas/modules/gitops/agent-questions.ts'
import { previewEndpoint } from '../../../../../src/kas/modules/gitops/preview-endpoint.ts'
import type { OwnRequest } from '../../../../../src/kas/own-endpoint.ts'
import { noPeers } from '../../../../../src/kas/peers/peers.ts'
import type { CommitId } from '../../../../../src/kas/repositories/repositories.ts'
import { noMeter } from '../../../../../src/lib/byte-budget.ts'
import { KasError } from '../../../../../src/lib/errors.ts'
import { PreviewResponseSchema } from '../../../../../src/proto/gen/gitops_preview_pb.ts'
import { SourceStateSchema } from '../../../../../src/proto/gen/gitops_states_pb.ts'
import { maxObjects } from '../../../../../src/proto/gitops/limits.ts'
import { someAgent } from '../../../../support/fake-agent-call.ts'
import { ManualClock } from '../../../../support/manual-clock.ts'
import { inPieces, tarOf } from '../../../../support/tar.ts'

type What = NonNullable<MessageInitShape<typeof PreviewResponseSchema>['what']>
type End = Extract<What, { case: 'end' }>['value']

const end = (value: End = {}): What => ({ case: 'end', value: { objects: 2, commit: 'c0ffee', ...value } })
const object = (name: string, more: object = {}): What => ({
  case: 'object',
  value: {
    key: { kind: 'ConfigMap', namespace: 'shop', name },
    action: 'changed',
    field: [{ path: '.data.a', kind: 'changed', before: '"PLANTED"', after: '"new"' }],
    ...more,
  },
})

const tar = tarOf([
  { name: 'a.yaml', data: 'a' },
  { name: 'README.md', data: 'r' },
])
const job = { userId: 5n, isJob: true, projectIds: [7n], address: undefined }
const limits = { maxFiles: 10, maxFileBytes: 1000, maxTotalBytes: 1000 }

/** Starts the endpoint at a replica that knows source 42-7, of an agent that answers with these messages. */
function start(
  whats: readonly What[],
  more: { readonly refuses?: KasError; readonly opened?: () => Promise<void>; readonly isFull?: () => boolean } = {},
) {
  const asked: AskedPreview[] = []
  let [running, most] = [0, 0]
  const clock = new ManualClock()
  const state = toBinary(SourceStateSchema, create(SourceStateSchema, { project: someAgent.project.path }))
  const value = { manifest_projects: [{ paths: [{ glob: '*.yaml' }] }] }
  const good = { commit: 'c1' as CommitId, since: 0, blocks: new Map([['gitops', { json: '', value }]]) }
  const followed = { agent: someAgent, error: undefined, readAt: 0, hasFeature: () => true }
  const endpoint = previewEndpoint(
    {
      states: { of: () => new Map([['42-7', { bytes: state, at: 0, live: true }]]) },
      agentConfig: { followed: () => ({ ...followed, good: good as unknown as AgentConfiguration }) },
      peers: noPeers,
      clock,
      localDirectory: undefined,
      questions: {
        checkPreview: () => {
          if (more.refuses) throw more.refuses
        },
        preview: async function* (_, question) {
          asked.push(question)
          if (more.isFull?.()) throw new KasError({ code: 'STATUS', grpc: 8, message: 'Too many previews' })
          running += 1
          most = Math.max(most, running)
          await more.opened?.()
          running -= 1
          for (const what of whats) yield create(PreviewResponseSchema, { what })
        },
      },
    },
    limits,
  )
  const shown: string[] = []
  let isRead = false
  const ask = async (query: Record<string, string | string[]> = {}, request: Partial<OwnRequest> = {}) => {
    const values = Object.entries({ source: '42-7', ...query }).map(([name, one]) => [name, [one].flat()] as const)
    const { status, mediaType, body } = await endpoint.serve({
      agentId: 42n as AgentId,
      caller: { key: 'job' },
      impersonation: undefined,
      who: job,
      shows: (text) => shown.push(text),
      id: 'audit-id',
      method: 'POST',
      query: new Map(values),
      body: (async function* () {
        isRead = true
        yield* inPieces(tar, 700)
      })(),
      memory: noMeter,
      signal: new AbortController().signal,
      ...request,
    })
    return { status, mediaType, text: Buffer.from(body).toString() }
  }
  return { ask, asked, shown, clock, isRead: () => isRead, most: () => most, endpoint }
}

t.test('the chosen files are asked about, once, with the id of the access log', async (t) => {
  const { ask, asked, shown } = start([object('one'), end({ changed: 1 })])
  const { status, mediaType, text } = await ask()
  t.equal(status, 200)
  t.equal(mediaType, 'text/plain; charset=utf-8')
  t.match(text, 'ConfigMap shop/one')
  t.strictSame(shown, ['source 42-7'])
  const [question, ...more] = asked
  t.strictSame(more, [])
  t.match(question, { source: '42-7', auditId: 'audit-id', values: false })
  t.strictSame(
    question?.files.map(({ path, data }) => [path, Buffer.from(data).toString()]),
    [['a.yaml', 'a']],
  )
})

t.test('each format has its media type', async (t) => {
  const { ask } = start([object('one'), end({ changed: 1 })])
  const shown: [string, string, RegExp][] = [
    ['text', 'text/plain; charset=utf-8', /^source 42-7/],
    ['ndjson', 'application/x-ndjson', /"exit_code":1\}\n$/],
    ['markdown', 'text/markdown; charset=utf-8', /^\*\*Preview\*\*/],
    ['terraform', 'application/json', /^\{"create":0,"update":1,"delete":0\}$/],
  ]
  for (const [format, mediaType, text] of shown) t.match(await ask({ format }), { status: 200, mediaType, text })
})

t.test('live values are shown to those who ask for them alone', async (t) => {
  const { ask, asked } = start([
    object('one'),
    object('two', { action: 'fails', text: 'found PLANTED' }),
    end({ changed: 1 }),
  ])
  for (const format of ['text', 'ndjson', 'markdown', 'terraform']) {
    t.notMatch((await ask({ format })).text, 'PLANTED', 'also if the agent sends them')
  }
  t.match((await ask({ values: 'true' })).text, '- "PLANTED"')
  t.equal(asked.at(-1)?.values, true)
})

t.test('the status says what a report of numbers does not', async (t) => {
  const statuses: readonly (readonly [End, number])[] = [
    [{}, 200],
    [{ changed: 1 }, 200],
    [{ failing: 1 }, 422],
    [{ refusal: { text: 'x' } }, 422],
    [{ notCompared: 2 }, 403],
    [{ problem: 'the API server is busy' }, 409],
    [{ notCompared: 1 }, 200],
  ]
  for (const [value, status] of statuses) {
    const { ask } = start([end(value)])
    for (const format of ['text', 'ndjson', 'markdown', 'terraform']) t.equal((await ask({ format })).status, status)
    if (status === 200) continue
    const { mediaType, text } = await ask({ format: 'terraform' })
    t.equal(mediaType, 'text/plain; charset=utf-8')
    t.notMatch(text, /create|in order|Nothing would change/)
  }
})

t.test('a caller who may not, an unknown source and an older agentk are refused before the body is read', async (t) => {
  const { ask, asked, isRead } = start([end()])
  await t.rejects(ask({}, { who: { ...job, projectIds: [8n] } }), {
    code: 'FORBIDDEN',
    message: /of project 7 may preview changes of source 42-7\. Add/,
  })
  await t.rejects(ask({ source: '42-8' }), { code: 'NOT_SERVED', httpStatus: 404 })
  const older = start([end()], { refuses: new KasError({ code: 'GITOPS_NOT_ASKED', reason: 'update it' }) })
  await t.rejects(older.ask(), { code: 'GITOPS_NOT_ASKED' })
  t.strictSame([isRead(), older.isRead(), asked.length, older.asked.length], [false, false, 0, 0])
})

t.test('a tar that cannot be read is not sent', async (t) => {
  const { ask, asked } = start([end()])
  await t.rejects(ask({}, { body: inPieces(tar.subarray(0, 600), 100) }), {
    code: 'BAD_REQUEST',
    message: /ends in the middle/,
  })
  t.equal(asked.length, 0)
})

t.test('an agent that does not end its answer, or sends too much, is no answer', async (t) => {
  await t.rejects(start([object('one')]).ask(), { code: 'INVALID_MESSAGE', message: /has not ended/ })
  const nothing = { case: undefined } as unknown as What
  const many = start([...Array(2 * maxObjects + 1).fill(nothing), end()])
  await t.rejects(many.ask(), { code: 'INVALID_MESSAGE', message: /more than 20000 objects/ })
})

t.test('objects beyond the room of one answer are counted', async (t) => {
  const large = Array.from({ length: 5 }, (_, i) => object(`o${i}`, { text: 'x'.repeat(1024 ** 2) }))
  const { ask } = start([...large, end({ changed: 5, cut: 1 })])
  const { text } = await ask({ format: 'ndjson', values: 'true' })
  t.ok(text.length < 4 * 1024 ** 2)
  const last = JSON.parse(text.trimEnd().split('\n').at(-1) as string)
  t.equal(last.cut, 1 + 5 - (text.split('\n').length - 2))
  t.equal(last.changed, 5)
})

t.test('texts about the whole have a bound, so that an answer always fits', async (t) => {
  const long = '\u0001'.repeat(300_000)
  const { ask } = start([end({ problem: long, commit: long, refusal: { text: long, file: long, line: 1 } })])
  const { status, text } = await ask({ format: 'ndjson' })
  t.equal(status, 422)
  t.ok(text.length < 100_000, `${text.length}`)
})

t.test('eight previews of a replica run at once, two of an agent, one of a caller', async (t) => {
  const rows: readonly (readonly [number, (i: number) => { agent: number; caller: number }])[] = [
    [8, (i) => ({ agent: i, caller: i })],
    [2, (i) => ({ agent: 1, caller: i })],
    [1, (i) => ({ agent: i, caller: 1 })],
  ]
  for (const [places, of] of rows) {
    const open = Promise.withResolvers<void>()
    const full = Promise.withResolvers<void>()
    let opened = 0
    const { ask, asked, most } = start([end()], {
      opened: async () => {
        opened += 1
        if (opened === places) full.resolve()
        await open.promise
      },
    })
    const all = Array.from({ length: 12 }, (_, i) => {
      const { agent, caller } = of(i)
      return ask({}, { agentId: BigInt(agent) as AgentId, caller: { key: `job ${caller}` } })
    })
    await full.promise
    open.resolve()
    for (const { status } of await Promise.all(all)) t.equal(status, 200)
    t.strictSame([most(), asked.length], [places, 12])
  }
})

t.test('a slow upload holds no place', async (t) => {
  const { ask, asked } = start([end()])
  const left = new AbortController()
  const never = Promise.withResolvers<never>()
  left.signal.addEventListener('abort', () => never.reject(left.signal.reason))
  const slow = Array.from({ length: 12 }, (_, i) => {
    const body = (async function* () {
      yield tar.subarray(0, 600)
      await never.promise
    })()
    return ask({}, { caller: { key: `job ${i}` }, body, signal: left.signal })
  })
  t.equal((await ask({}, { caller: { key: 'job 1' } })).status, 200, 'also of the same caller')
  t.equal(asked.length, 1)
  left.abort(new KasError({ code: 'CANCELLED' }))
  for (const one of slow) await t.rejects(one, { code: 'CANCELLED' }, 'and they end with their callers')
})

t.test('an agent whose places have previews of other replicas is asked again, for a while', async (t) => {
  let full = 3
  const { ask, asked, clock } = start([end()], { isFull: () => full-- > 0 })
  const answer = ask()
  await clock.pass(4000)
  t.equal(asked.length, 3)
  await clock.pass(2000)
  t.equal((await answer).status, 200)
  t.equal(asked.length, 4)
  t.equal(clock.pending, 0)
  full = 1000
  const refused = t.rejects(ask(), { code: 'TOO_MANY_STREAMS', httpStatus: 429 })
  await clock.pass(40_000)
  await refused
  full = 1000
  const left = new AbortController()
  const ended = t.rejects(ask({}, { signal: left.signal }), { message: 'left' })
  await clock.pass(1000)
  left.abort(new Error('left'))
  await ended
  t.equal(clock.pending, 0)
})

t.test('bad parameters are named', async (t) => {
  const { ask } = start([end()])
  const wrong: readonly (readonly [Record<string, string | string[]>, RegExp])[] = [
    [{ source: '' }, /source: allowed is the id/],
    [{ source: 'platform/shop' }, /source: allowed is the id/],
    [{ source: ['42-7', '42-8'] }, /source stands more than once/],
    [{ format: 'yaml' }, /format: allowed is text, ndjson, markdown, terraform/],
    [{ values: 'yes' }, /values: allowed is true or false/],
    [{ ref: 'main' }, /the parameter "ref" is not known: allowed are source, format, values/],
  ]
  for (const [query, text] of wrong) await t.rejects(ask(query), { code: 'BAD_REQUEST', message: text })
})
