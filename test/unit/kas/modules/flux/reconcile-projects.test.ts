import { create, fromBinary, toBinary } from '@bufbuild/protobuf'
import t, { type Test } from 'tap'
import type { AgentId, Metadata } from '../../../../../src/call/call.ts'
import { RecentPushes } from '../../../../../src/kas/modules/flux/recent-pushes.ts'
import {
  type ReconcileProjectsOptions,
  reconcileProjects,
} from '../../../../../src/kas/modules/flux/reconcile-projects.ts'
import type { PushEvent } from '../../../../../src/kas/repositories/local-pushes.ts'
import { KasError } from '../../../../../src/lib/errors.ts'
import {
  ReconcileProjectsRequestSchema,
  ReconcileProjectsResponseSchema,
} from '../../../../../src/proto/gen/flux_pb.ts'
import { capturedLog } from '../../../../support/captured-log.ts'
import { someAgent as agent, FakeAgentCall } from '../../../../support/fake-agent-call.ts'
import { ManualClock, settle } from '../../../../support/manual-clock.ts'

const away = new KasError({ code: 'DIRECTORY_UNAVAILABLE' })
const settled = () => settle(20)
const requestOf = (...paths: string[]) =>
  toBinary(
    ReconcileProjectsRequestSchema,
    create(ReconcileProjectsRequestSchema, { project: paths.map((id) => ({ id })) }),
  )

/** Starts one replica. Its agents can read each project that `verdicts` does not name. */
function start(t: Test, options: ReconcileProjectsOptions = {}) {
  const clock = new ManualClock()
  const listeners = new Set<(push: PushEvent) => void>()
  const calls: FakeAgentCall[] = []
  t.teardown(() => {
    const listening = calls.reduce((sum, call) => sum + call.directoryListeners, 0)
    if (listening + clock.pending > 0) throw new Error('something is left behind')
  })
  const pushes = new RecentPushes({
    clock,
    pushes: {
      onPush(listener) {
        listeners.add(listener)
        return () => listeners.delete(listener)
      },
    },
  })
  let lastId = 1000n
  const push = async (projectPath: string, id = ++lastId) => {
    for (const listener of listeners) listener({ projectId: BigInt(projectPath.length), projectPath, id })
    await settled()
  }
  const verdicts = new Map<string, boolean | KasError>()
  const asked: string[] = []
  const counted = { notified: 0, dropped: 0, usage: [] as unknown[] }
  const serve = reconcileProjects(
    {
      pushes,
      directory: {
        readsProject: async (token, path) => {
          if (token !== 'token') throw new Error('it is not the token of the agent')
          asked.push(path)
          await new Promise(setImmediate)
          const verdict = verdicts.get(path) ?? true
          if (verdict instanceof KasError) throw verdict
          return verdict
        },
      },
      usage: {
        counter: (name) => () => void counted.usage.push(name),
        unique: (name) => (id) => void counted.usage.push([name, id]),
      },
      metrics: { notified: () => counted.notified++, dropped: () => counted.dropped++ },
      clock,
      log: capturedLog().log,
    },
    options,
  )

  /** Opens the stream of an agent. */
  const open = (request = requestOf('a/b', 'c/d'), as = agent, metadata: Metadata = {}) => {
    const call = new FakeAgentCall({ agent: as, metadata, messages: [request] })
    calls.push(call)
    const done = call.servedBy(serve)
    t.teardown(async () => {
      call.retire()
      await done
    })
    const end = async (action: () => void) => {
      action()
      return await done
    }
    const responses = () => call.sent.map((message) => fromBinary(ReconcileProjectsResponseSchema, message))
    return {
      call,
      done,
      /** projects that the agent received, in order */
      received: () => responses().map(({ project }) => project?.id),
      ids: () => responses().map(({ pushId }) => pushId),
      retire: () => end(() => call.retire()),
      leave: (code: 'CANCELLED' | 'TUNNEL_LOST') =>
        end(() => call.cut(new KasError(code === 'CANCELLED' ? { code } : { code, delivery: 'maybe' }))),
    }
  }
  return { clock, push, open, serve, verdicts, asked, counted }
}

// wire: flux.notice, usage.flux_git_push_notifications_total, usage.unique.flux
t.test('each push to a project that the agent names is sent, in order, others are not', async (t) => {
  const { open, push, asked, counted } = start(t)
  const { received, ids } = open()
  await settled()
  await push('a/b', 5n)
  await push('x/y')
  await push('A/B')
  await push('c/d')
  await push('a/b', 2n ** 64n - 1n)
  t.strictSame(received(), ['a/b', 'c/d', 'a/b'])
  const [first, second, third] = ids()
  t.strictSame([first, third], [5n, 2n ** 64n - 1n])
  t.not(second, 0n, 'one of its own')
  t.strictSame(asked, ['a/b', 'c/d', 'a/b'], 'the directory decides each time')
  t.equal(counted.notified, 3)
  t.strictSame(counted.usage.slice(0, 2), [
    'flux_git_push_notifications_total',
    ['flux_git_push_notified_unique_projects', 3n],
  ])
})

t.test(
  'a new stream of an agent that knows ids gets all that is recent, of a stock agent what it was not sent',
  async (t) => {
    const { open, push, clock } = start(t)
    const first = open()
    await settled()
    await push('a/b', 5n)
    await push('c/d', 6n)
    clock.advance(60_000)
    await first.leave('CANCELLED')
    const stock = open()
    const own = open(undefined, agent, { 'kas-features': ['push-id'] })
    await settled()
    t.strictSame(stock.received(), [])
    t.strictSame(
      [own.received(), own.ids()],
      [
        ['a/b', 'c/d'],
        [5n, 6n],
      ],
    )
  },
)

// wire: flux.access
t.test('a project that the agent may not read is not sent, until it may', async (t) => {
  const { open, push, verdicts, counted } = start(t)
  const { received } = open()
  verdicts.set('a/b', false)
  await push('a/b')
  t.strictSame(received(), [])
  verdicts.delete('a/b')
  await push('a/b')
  t.strictSame(received(), ['a/b'])
  t.equal(counted.dropped, 0)
})

// wire: flux.id
t.test('a request that cannot be', async (t) => {
  const { open } = start(t, { maxProjects: 2 })
  for (const [request, message] of [
    [requestOf('a/b', ''), 'project.id is required'],
    [requestOf('a', 'b', 'c'), '3 projects are more than 2'],
    [Buffer.from([0x0a, 0xff]), /malformed .*ReconcileProjectsRequest/],
  ] as const) {
    t.match(await open(request).done, { grpcCode: 3, message })
  }
  const { received } = open(requestOf())
  t.strictSame(received(), [], 'no project is fine')
})

t.test('a stream without a request', async (t) => {
  const { serve } = start(t)
  t.match(await new FakeAgentCall().servedBy(serve), { code: 'INVALID_MESSAGE', message: 'no request message' })
})

t.test('while the directory is away nothing is lost, and other projects do not wait', async (t) => {
  const { open, push, verdicts, clock, asked } = start(t)
  const { received } = open()
  verdicts.set('a/b', away)
  await push('a/b')
  await push('c/d')
  t.strictSame(received(), ['c/d'], 'an answer of the directory does not wait for another')
  for (let i = 0; i < 10; i++) {
    clock.advance(10_000)
    await settled()
  }
  const before = asked.length
  clock.advance(9999)
  await settled()
  t.equal(asked.length, before, 'asked every 10 s at most')
  verdicts.delete('a/b')
  clock.advance(1)
  await settled()
  t.strictSame(received(), ['c/d', 'a/b'])
})

t.test('a push for which the directory is away for 5 minutes is dropped', async (t) => {
  const { open, push, verdicts, clock, counted } = start(t)
  const { received } = open()
  verdicts.set('a/b', away)
  await push('a/b')
  for (let i = 0; i < 31; i++) {
    clock.advance(10_000)
    await settled()
  }
  t.equal(counted.dropped, 1)
  verdicts.delete('a/b')
  clock.advance(10_000)
  await settled()
  t.strictSame(received(), [])
  await push('c/d')
  t.strictSame(received(), ['c/d'], 'the stream goes on')
})

// wire: flux.bound
t.test('an agent that does not read: pushes to one project become one, none is lost', async (t) => {
  const { open, push, counted } = start(t, { maxPending: 2 })
  const { received, ids, call } = open()
  await settled()
  const read = call.stall()
  await push('a/b', 1n)
  for (let id = 2n; id < 10n; id++) await push('a/b', id)
  await push('c/d', 10n)
  t.strictSame(received(), ['a/b'])
  read()
  await settled()
  t.strictSame(ids(), [1n, 2n, 9n, 10n])
  t.equal(counted.dropped, 6)
})

// wire: flux.age
t.test('the agent gets what was pushed while it was away, what it has had it does not get again', async (t) => {
  const { open, push, clock } = start(t)
  const first = open()
  await settled()
  await push('a/b', 1n)
  clock.advance(10_000)
  t.equal(await first.retire(), 'OK')
  await push('c/d', 2n)
  await push('x/y', 3n)
  const second = open()
  await settled()
  t.strictSame(second.received(), ['c/d'])
  await push('a/b', 4n)
  t.match(await second.leave('TUNNEL_LOST'), { code: 'TUNNEL_LOST' })
  const third = open()
  await settled()
  t.strictSame(third.ids(), [2n, 4n], 'of a connection that was lost nobody knows what arrived')
  clock.advance(4999)
  await third.leave('CANCELLED')
  const fourth = open()
  await settled()
  t.strictSame(fourth.received(), ['c/d', 'a/b'], 'nor of what was sent shortly before the agent cancelled')
  clock.advance(4999)
  await fourth.retire()
  const again = open()
  await settled()
  t.strictSame(again.received(), ['c/d', 'a/b'], 'or before its connection retired')
  clock.advance(5000)
  await again.leave('CANCELLED')
  const fifth = open()
  await settled()
  t.strictSame(fifth.received(), [], 'what was sent before has arrived')
  const other = open(requestOf('a/b'), { ...agent, id: 43n as AgentId })
  await settled()
  t.strictSame(other.received(), ['a/b'], 'each agent has its own')
  clock.advance(300_000)
  const late = open(requestOf('x/y'), { ...agent, id: 44n as AgentId })
  await settled()
  t.strictSame(late.received(), [], 'what is long ago is forgotten')
})

t.test('a loss that is noticed when the agent is back already', async (t) => {
  const { open, push } = start(t)
  const lost = open()
  const other = open(requestOf('a/b'), { ...agent, id: 43n as AgentId })
  await settled()
  await push('a/b', 1n)
  const back = open()
  await settled()
  await push('c/d', 2n)
  t.strictSame(lost.received(), ['a/b', 'c/d'])
  t.strictSame(back.received(), ['c/d'])
  await lost.leave('TUNNEL_LOST')
  await settled()
  t.strictSame(back.received(), ['c/d', 'a/b'], 'what this stream has sent is not sent again')
  t.strictSame(other.received(), ['a/b'], 'nor are other agents')
})

t.test('what waits when the connection retires is sent on the next', async (t) => {
  const { open, push, verdicts } = start(t)
  const first = open()
  verdicts.set('a/b', away)
  await push('a/b')
  t.equal(await first.retire(), 'OK')
  verdicts.delete('a/b')
  const second = open()
  await settled()
  t.strictSame(second.received(), ['a/b'])
})

t.test('the stream ends with its token, and when the caller leaves', async (t) => {
  const { open, push } = start(t)
  const left = open()
  await settled()
  t.match(await left.leave('CANCELLED'), { code: 'CANCELLED' })
  const stream = open()
  await settled()
  stream.call.directoryChanged()
  await push('a/b')
  t.strictSame(stream.received(), ['a/b'], 'any other change of the directory ends nothing')
  const unauthenticated = new KasError({ code: 'UNAUTHENTICATED' })
  stream.call.invalid = unauthenticated
  stream.call.directoryChanged()
  t.equal(await stream.done, unauthenticated)
  const revoked = open()
  await settled()
  revoked.call.invalid = new KasError({ code: 'UNAUTHENTICATED', reason: 'x' })
  await push('c/d')
  t.equal(await revoked.done, revoked.call.invalid)
  t.strictSame(revoked.received(), ['a/b'], 'nothing more is sent with a void token')
})

t.test('paths of projects are bounded over all streams of an agent', async (t) => {
  const { open } = start(t, { maxPathBytesOfAgent: 140 })
  const first = open(requestOf('a/bcd', 'e/fg'))
  await settled()
  const refused = await open(requestOf('h/i')).done
  t.match(refused, { code: 'TOO_MANY_STREAMS', message: /paths of projects of this agent.*allowed: 140/ })
  await first.retire()
  const third = open(requestOf('h/i'))
  await settled()
  t.equal(await third.retire(), 'OK', 'there is room again')
})

t.test('a list beyond the bound is refused before it is read', async (t) => {
  const { open } = start(t, { maxPathBytesOfAgent: 201 })
  const unnamed = Buffer.from([0x0a, 0]) // a project without a name, which kas refuses when it reads it
  const refused = await open(Buffer.concat([requestOf('a/b', 'c/d', 'e/f'), unnamed])).done
  t.match(refused, { code: 'TOO_MANY_STREAMS' })
  const malformed = await open(Buffer.concat([requestOf('a/b', 'c/d'), unnamed])).done
  t.match(malformed, { code: 'INVALID_MESSAGE', message: /project.id is required/ })
  const first = open(requestOf('a/b', 'c/d', 'e/f'))
  await settled()
  t.equal(await first.retire(), 'OK', 'what was refused is not counted')
})

t.test('of long lists that come at once one is read in each turn of the event loop, agents by turns', async (t) => {
  const { open } = start(t)
  const long = () => requestOf(...Array.from({ length: 300 }, (_, i) => `group/${i}`.padEnd(80, 'x')))
  const other = { ...agent, id: 43n as AgentId }
  const mine = [open(long()), open(long()), open(long())]
  const theirs = open(long(), other)
  const short = open(requestOf('a/b'))
  const left = open(long(), other)
  left.call.cut(new KasError({ code: 'CANCELLED' }))
  const read = () => [...mine, theirs, short].map(({ call }) => call.sentMetadata.length)
  t.match(await left.done, { code: 'CANCELLED' })
  t.same(read(), [1, 0, 0, 0, 1])
  await new Promise(setImmediate)
  t.same(read(), [1, 1, 0, 0, 1])
  await new Promise(setImmediate)
  t.same(read(), [1, 1, 0, 1, 1])
  await new Promise(setImmediate)
  t.same(read(), [1, 1, 1, 1, 1])
  await Promise.all([...mine, theirs, short].map((stream) => stream.retire()))
})

t.test('projects are counted before one is built', async (t) => {
  const { open } = start(t, { maxProjects: 3 })
  const empty = Buffer.from([0x0a, 0]) // a project without an id
  const refused = await open(Buffer.concat(Array.from({ length: 400_000 }, () => empty))).done
  t.match(refused, { code: 'INVALID_MESSAGE', message: /400000 projects are more than 3/ })
})

t.test('a stream that begins looks at each recent push a few times, however many there are', async (t) => {
  const paths = Array.from({ length: 1000 }, (_, i) => `a/${i}`)
  let looks = 0
  const recent = paths.map((path) => ({
    get projectPath() {
      looks++
      return path
    },
    projectId: 1n,
    id: 1n,
    receivedAt: 0,
    notified: new Set<AgentId>(),
  }))
  const pushes = { recent: () => recent, onPush: () => () => true, isRecent: () => true, resend: () => undefined }
  const serve = reconcileProjects({
    pushes,
    directory: { readsProject: () => new Promise(() => undefined) },
    usage: { counter: () => () => undefined, unique: () => () => undefined },
    metrics: { notified: () => undefined, dropped: () => undefined },
    clock: new ManualClock(),
    log: capturedLog().log,
  })
  const call = new FakeAgentCall({ agent, messages: [requestOf(...paths)] })
  const done = call.servedBy(serve)
  await settled()
  t.ok(looks >= paths.length, 'it has begun')
  t.ok(looks <= 3 * paths.length, `${looks} for ${paths.length}`)
  call.retire()
  await done
})
