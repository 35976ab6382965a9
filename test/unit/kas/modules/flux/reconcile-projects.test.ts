import { create, fromBinary, toBinary } from '@bufbuild/protobuf'
import t, { type Test } from 'tap'
import type { AgentId, Metadata } from '../../../../../src/call/call.ts'
import type { Agent } from '../../../../../src/kas/agent.ts'
import { type Push, RecentPushes } from '../../../../../src/kas/modules/flux/recent-pushes.ts'
import {
  type ReconcileProjectsOptions,
  reconcileProjectsHandler,
} from '../../../../../src/kas/modules/flux/reconcile-projects.ts'
import { KasError } from '../../../../../src/lib/errors.ts'
import {
  ReconcileProjectsRequestSchema,
  ReconcileProjectsResponseSchema,
} from '../../../../../src/proto/gen/flux_pb.ts'
import { capturedLog } from '../../../../support/captured-log.ts'
import { ManualClock } from '../../../../support/manual-clock.ts'

const agent: Agent = { id: 42n as AgentId, name: 'prod', project: { id: 7n, path: 'platform/clusters' } }
const away = new KasError({ code: 'DIRECTORY_UNAVAILABLE' })
const settled = async () => {
  for (let i = 0; i < 20; i++) await new Promise(setImmediate)
}
const requestOf = (...paths: string[]) =>
  toBinary(
    ReconcileProjectsRequestSchema,
    create(ReconcileProjectsRequestSchema, { project: paths.map((id) => ({ id })) }),
  )

/** One replica, whose agents may hear of what `verdicts` does not name. */
function start(t: Test, options: ReconcileProjectsOptions = {}) {
  const clock = new ManualClock()
  const listeners = new Set<(push: Push) => void>()
  const directoryListeners = new Set<() => void>()
  t.teardown(() => {
    if (directoryListeners.size + clock.pending > 0) throw new Error('something is left behind')
  })
  const pushes = new RecentPushes({
    clock,
    pushEvents: {
      onPush(listener) {
        listeners.add(listener)
        return () => listeners.delete(listener)
      },
    },
  })
  const push = async (projectPath: string, id?: bigint) => {
    for (const listener of listeners)
      listener({ projectId: BigInt(projectPath.length), projectPath, ...(id === undefined ? {} : { id }) })
    await settled()
  }
  const world = { authenticated: undefined as undefined | Agent | KasError }
  const verdicts = new Map<string, boolean | KasError>()
  const asked: string[] = []
  const counted = { notified: 0, dropped: 0, usage: [] as unknown[] }

  /** An agent's stream. */
  const open = (request: Uint8Array | undefined = requestOf('a/b', 'c/d'), as = agent, metadata: Metadata = {}) => {
    const retirement = new AbortController()
    const caller = new AbortController()
    const sent: { id: string; pushId: bigint }[] = []
    let room: Promise<void> | undefined
    async function* messages() {
      if (request) yield request
    }
    const stream = {
      metadata,
      messages: messages(),
      signal: caller.signal,
      sendMetadata: () => undefined,
      send(message: Uint8Array) {
        const { project, pushId } = fromBinary(ReconcileProjectsResponseSchema, message)
        sent.push({ id: project?.id ?? '', pushId })
        return room
      },
    }
    const handler = reconcileProjectsHandler<typeof stream>(
      {
        pushes,
        authenticate: async () => {
          if (world.authenticated instanceof KasError) throw world.authenticated
          return world.authenticated ?? as
        },
        readsProject: async (_, path) => {
          asked.push(path)
          await new Promise(setImmediate)
          const verdict = verdicts.get(path) ?? true
          if (verdict instanceof KasError) throw verdict
          return verdict
        },
        retired: () => retirement.signal,
        onDirectoryChange(listener) {
          directoryListeners.add(listener)
          return () => directoryListeners.delete(listener)
        },
        usage: {
          count: (name) => counted.usage.push(name),
          countUnique: (name, id) => counted.usage.push([name, id]),
        },
        metrics: { notified: () => counted.notified++, dropped: () => counted.dropped++ },
        clock,
        log: capturedLog().log,
      },
      options,
    )
    const done = handler(as, stream).then(
      () => 'OK',
      (error: unknown) => error,
    )
    t.teardown(async () => {
      retirement.abort()
      await done
    })
    const end = async (action: () => void) => {
      action()
      return await done
    }
    return {
      done,
      sent,
      /** what the agent was told of, in order */
      told: () => sent.map(({ id }) => id),
      retire: () => end(() => retirement.abort()),
      leave: (code: 'CANCELLED' | 'TUNNEL_LOST') =>
        end(() => caller.abort(new KasError(code === 'CANCELLED' ? { code } : { code, delivery: 'maybe' }))),
      /** the agent reads no further until the returned function is called */
      stall() {
        const { promise, resolve } = Promise.withResolvers<void>()
        room = promise
        return () => {
          room = undefined
          resolve()
        }
      },
    }
  }
  const tellDirectory = async () => {
    for (const listener of directoryListeners) listener()
    await settled()
  }
  return { clock, push, open, verdicts, asked, counted, world, tellDirectory }
}

// wire: flux.notice, usage.flux_git_push_notifications_total, usage.unique.flux
t.test('each push to a project that the agent names is told, in order, others are not', async (t) => {
  const { open, push, asked, counted } = start(t)
  const { told, sent } = open()
  await settled()
  await push('a/b', 5n)
  await push('x/y')
  await push('A/B')
  await push('c/d')
  await push('a/b', 2n ** 64n - 1n)
  t.strictSame(told(), ['a/b', 'c/d', 'a/b'])
  t.equal(sent[0]?.pushId, 5n)
  t.equal(sent[2]?.pushId, 2n ** 64n - 1n)
  t.not(sent[1]?.pushId, 0n, 'one of its own')
  t.strictSame(asked, ['a/b', 'c/d', 'a/b'], 'the directory decides each time')
  t.equal(counted.notified, 3)
  t.strictSame(counted.usage.slice(0, 2), [
    'flux_git_push_notifications_total',
    ['flux_git_push_notified_unique_projects', 3n],
  ])
})

t.test(
  'a new stream of an agent that knows ids is told all that is recent, of a stock agent what it was not told',
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
    t.strictSame(stock.told(), [])
    t.strictSame(own.sent, [
      { id: 'a/b', pushId: 5n },
      { id: 'c/d', pushId: 6n },
    ])
  },
)

// wire: flux.access
t.test('a project that the agent may not read is not told, until it may', async (t) => {
  const { open, push, verdicts, counted } = start(t)
  const { told } = open()
  verdicts.set('a/b', false)
  await push('a/b')
  t.strictSame(told(), [])
  verdicts.delete('a/b')
  await push('a/b')
  t.strictSame(told(), ['a/b'])
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
  const { told } = open(requestOf())
  t.strictSame(told(), [], 'no project is fine')
})

t.test('a stream without a request', async (t) => {
  const stream = { metadata: {}, messages: (async function* () {})(), signal: new AbortController().signal }
  const handler = reconcileProjectsHandler({} as never)
  await t.rejects(handler(agent, { ...stream, sendMetadata: () => undefined, send: () => undefined }), {
    code: 'INVALID_MESSAGE',
    message: 'no request message',
  })
})

t.test('while the directory is away nothing is lost, and others are asked about between', async (t) => {
  const { open, push, verdicts, clock, asked } = start(t)
  const { told } = open()
  verdicts.set('a/b', away)
  await push('a/b')
  await push('c/d')
  t.strictSame(told(), ['c/d'], 'what it can say something of does not wait')
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
  t.strictSame(told(), ['c/d', 'a/b'])
})

t.test('a push that nobody could say anything of for 5 minutes is dropped', async (t) => {
  const { open, push, verdicts, clock, counted } = start(t)
  const { told } = open()
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
  t.strictSame(told(), [])
  await push('c/d')
  t.strictSame(told(), ['c/d'], 'the stream goes on')
})

// wire: flux.bound
t.test('an agent that does not read: pushes to one project become one, none is lost', async (t) => {
  const { open, push, counted } = start(t, { maxPending: 2 })
  const { told, stall, sent } = open()
  await settled()
  const read = stall()
  await push('a/b', 1n)
  for (let id = 2n; id < 10n; id++) await push('a/b', id)
  await push('c/d', 10n)
  t.strictSame(told(), ['a/b'])
  read()
  await settled()
  t.strictSame(
    sent.map(({ pushId }) => pushId),
    [1n, 2n, 9n, 10n],
  )
  t.equal(counted.dropped, 6)
})

// wire: flux.age
t.test('the agent hears what was pushed while it was away, what it has heard it does not hear again', async (t) => {
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
  t.strictSame(second.told(), ['c/d'])
  await push('a/b', 4n)
  t.match(await second.leave('TUNNEL_LOST'), { code: 'TUNNEL_LOST' })
  const third = open()
  await settled()
  t.strictSame(
    third.sent.map(({ pushId }) => pushId),
    [2n, 4n],
    'of a connection that was lost nobody knows what arrived',
  )
  clock.advance(4999)
  await third.leave('CANCELLED')
  const fourth = open()
  await settled()
  t.strictSame(fourth.told(), ['c/d', 'a/b'], 'nor of what was sent shortly before the agent cancelled')
  clock.advance(4999)
  await fourth.retire()
  const again = open()
  await settled()
  t.strictSame(again.told(), ['c/d', 'a/b'], 'or before its connection retired')
  clock.advance(5000)
  await again.leave('CANCELLED')
  const fifth = open()
  await settled()
  t.strictSame(fifth.told(), [], 'what was sent before has arrived')
  const other = open(requestOf('a/b'), { ...agent, id: 43n as AgentId })
  await settled()
  t.strictSame(other.told(), ['a/b'], 'each agent has its own')
  clock.advance(300_000)
  const late = open(requestOf('x/y'), { ...agent, id: 44n as AgentId })
  await settled()
  t.strictSame(late.told(), [], 'what is long ago is forgotten')
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
  t.strictSame(lost.told(), ['a/b', 'c/d'])
  t.strictSame(back.told(), ['c/d'])
  await lost.leave('TUNNEL_LOST')
  await settled()
  t.strictSame(back.told(), ['c/d', 'a/b'], 'what this stream has told is not told again')
  t.strictSame(other.told(), ['a/b'], 'nor are other agents')
})

t.test('what waits when the connection retires is told on the next', async (t) => {
  const { open, push, verdicts } = start(t)
  const first = open()
  verdicts.set('a/b', away)
  await push('a/b')
  t.equal(await first.retire(), 'OK')
  verdicts.delete('a/b')
  const second = open()
  await settled()
  t.strictSame(second.told(), ['a/b'])
})

t.test('the stream ends with its token, and when the caller leaves', async (t) => {
  const { open, world, tellDirectory, push } = start(t)
  const left = open()
  await settled()
  t.match(await left.leave('CANCELLED'), { code: 'CANCELLED' })
  const stream = open()
  await settled()
  world.authenticated = away
  await tellDirectory()
  await push('a/b')
  t.strictSame(stream.told(), ['a/b'], 'a directory that is away ends nothing')
  world.authenticated = { ...agent, id: 43n as AgentId }
  await tellDirectory()
  t.match(await stream.done, { code: 'UNAUTHENTICATED' }, 'the token of another agent now')
  world.authenticated = undefined
  const revoked = open()
  await settled()
  world.authenticated = new KasError({ code: 'UNAUTHENTICATED', reason: 'x' })
  await push('c/d')
  t.equal(await revoked.done, world.authenticated)
  t.strictSame(revoked.told(), ['a/b'], 'nothing more is told with a void token')
})
