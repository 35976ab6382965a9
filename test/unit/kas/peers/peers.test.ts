import { create, fromBinary, toBinary } from '@bufbuild/protobuf'
import t, { type Test } from 'tap'
import type { Outcome } from '../../../../src/call/call.ts'
import type { Link } from '../../../../src/kas/peers/link.ts'
import { LinkPeers, noPeers, type Peer } from '../../../../src/kas/peers/peers.ts'
import { Code, KasError } from '../../../../src/lib/errors.ts'
import type { InstanceId, Row } from '../../../../src/membership/membership.ts'
import { Leads, PassedOnRequestSchema, PassedOnResponseSchema } from '../../../../src/proto/gen/replica_leads_pb.ts'
import type { ClientSession, OpenOptions } from '../../../../src/proto/grpc/client-session.ts'
import { capturedLog } from '../../../support/captured-log.ts'
import { ManualClock, settle } from '../../../support/manual-clock.ts'
import { head, instance } from '../../membership/rows.ts'

const { passedOn } = Leads.method
const request = { agentId: 42n, name: 'kas-0' }
const unknown = new KasError({ code: 'STATUS', grpc: Code.UNIMPLEMENTED, message: 'unknown method' })
/** A connection to a replica that answers each call, or ends it with `error`. */
function answering(error?: KasError) {
  const opened: OpenOptions[] = []
  const received: Uint8Array[] = []
  const open = (options: OpenOptions) => {
    opened.push(options)
    return {
      send: (message: Uint8Array) => void received.push(message),
      end: () => undefined,
      messages: (async function* () {
        if (!error) yield toBinary(PassedOnResponseSchema, create(PassedOnResponseSchema))
      })(),
      done: Promise.resolve<Outcome>({ ...(error ? { error } : {}), trailers: {} }),
    }
  }
  return { opened, received, session: { open } as unknown as ClientSession }
}

/** `kas-0` with peers. The test sets the state of each link. */
function start(t: Test) {
  const clock = new ManualClock()
  const { log, lines } = capturedLog()
  const links = new Map<InstanceId, Pick<Link, 'reach' | 'session'>>()
  const rows = new Map<string, Row>()
  const world = { rank: ['kas-0'] }
  let reached: (instance: InstanceId) => void = () => undefined
  let changed = () => {}
  const join = (name: string) => {
    rows.set(name, {
      instance: instance(`${name}-1`),
      version: 1,
      head: { ...head, name },
      connections: new Map(),
      registrations: new Map(),
    })
  }
  join('kas-0')
  const peers = new LinkPeers({
    membership: {
      name: 'kas-0',
      instance: instance('kas-0-1'),
      rows: () => [...rows.values()],
      rank: () => world.rank,
    },
    links: {
      link: (to) => links.get(to) as Link | undefined,
      onReached: (listener) => {
        reached = listener
      },
      onPeers: (listener) => {
        changed = listener
      },
    },
    clock,
    log,
  })
  t.teardown(() => peers.stop())
  const link = (name: string, reach: Link['reach'], session?: ClientSession) => {
    join(name)
    links.set(instance(`${name}-1`), { reach, session })
  }
  /** Makes the replica reachable. */
  const reach = (name: string) => {
    link(name, 'reachable')
    reached(instance(`${name}-1`))
  }
  return { peers, clock, lines, world, link, reach, change: () => changed() }
}

t.test('a call goes to one peer, which has 1 s for its answer', async (t) => {
  const { peers, link } = start(t)
  const { session, opened, received } = answering()
  link('kas-1', 'reachable', session)
  t.match(await peers.call(instance('kas-1-1'), passedOn, request), { $typeName: 'kas.replica.v1.PassedOnResponse' })
  t.strictSame(opened, [{ method: '/kas.replica.v1.Leads/PassedOn', timeoutMs: 1000 }])
  t.match(fromBinary(PassedOnRequestSchema, received[0] ?? new Uint8Array()), request)
})

t.test('a call throws what the peer answers, or that there is no connection to it', async (t) => {
  const { peers, link } = start(t)
  link('kas-1', 'reachable', answering(unknown).session)
  link('kas-2', 'down')
  await t.rejects(peers.call(instance('kas-1-1'), passedOn, request), unknown)
  for (const name of ['kas-2-1', 'nobody']) {
    await t.rejects(peers.call(instance(name), passedOn, request), { code: 'CANCELLED' })
  }
})

t.test('a broadcast calls all in reach at once; those that do not answer are left out', async (t) => {
  const { peers, link, lines } = start(t)
  const sessions = [answering(), answering(), answering(unknown), answering(), answering()] as const
  for (const [i, reach] of (['reachable', 'suspect', 'reachable', 'unreachable', 'down'] as const).entries()) {
    link(`kas-${i + 1}`, reach, sessions[i]?.session)
  }
  const answers = await peers.broadcast(passedOn, request)
  t.strictSame(
    [...answers.keys()],
    [1, 2].map((i) => ({ instance: instance(`kas-${i}-1`), name: `kas-${i}` })),
  )
  for (const answer of answers.values()) t.equal(answer.$typeName, 'kas.replica.v1.PassedOnResponse')
  t.strictSame(
    sessions.map(({ opened }) => opened.length),
    [1, 1, 1, 0, 0],
  )
  t.match(lines, [{ level: 'debug', instance: 'kas-3-1', grpc_method: 'PassedOn', msg: 'A replica did not answer' }])
  t.strictSame(
    [1, 2, 3, 4, 5, 6].map((i) => peers.isReachable(instance(`kas-${i}-1`))),
    [true, true, true, false, false, false],
  )
})

t.test('the first in rank of those in reach', async (t) => {
  const { peers, link, world } = start(t)
  t.equal(peers.isFirst('42'), true)
  world.rank = ['kas-1', 'kas-2', 'kas-0', 'kas-3']
  t.equal(peers.isFirst('42'), true, 'the others are not there')
  link('kas-2', 'suspect')
  t.equal(peers.isFirst('42'), false)
  link('kas-2', 'unreachable')
  link('kas-3', 'reachable')
  t.equal(peers.isFirst('42'), true)
  t.equal(peers.first('42'), 'self')
  link('kas-1', 'reachable')
  t.strictSame(peers.first('42'), { instance: instance('kas-1-1'), name: 'kas-1' })
  world.rank = ['kas-3']
  t.equal(peers.isFirst('42'), false, 'it leaves')
  world.rank = []
  t.equal(peers.first('42'), undefined, 'all do')
})

t.test('who asks for the first hears when it may be another one', async (t) => {
  const { peers, change } = start(t)
  let changes = 0
  const end = peers.onChange(() => changes++)
  change()
  t.equal(changes, 1)
  end()
  change()
  t.equal(changes, 1)
})

t.test('a peer that is in reach, or comes into it, is greeted', async (t) => {
  const { peers, link, reach } = start(t)
  const greeted: string[] = []
  link('kas-1', 'reachable')
  link('kas-2', 'down')
  const end = peers.onReached(async ({ name, instance }: Peer) => void greeted.push(`${name} ${instance}`))
  t.strictSame(greeted, ['kas-1 kas-1-1'], 'at once')
  reach('kas-2')
  reach('kas-1')
  t.strictSame(greeted.splice(0), ['kas-1 kas-1-1', 'kas-2 kas-2-1', 'kas-1 kas-1-1'], 'again when it is back')
  end()
  reach('kas-3')
  t.strictSame(greeted, [])
})

t.test('one that refuses a greeting is greeted again after 1 s, and not for ever', async (t) => {
  const { peers, reach, clock, lines } = start(t)
  const tries: [name: string, at: number][] = []
  const began = clock.now()
  let failures = 2
  peers.onReached(async ({ name }) => {
    tries.push([name, clock.now() - began])
    if (failures-- > 0) throw new KasError({ code: 'UNAUTHENTICATED' })
  })
  reach('kas-1')
  await settle()
  for (let i = 0; i < 4; i++) {
    clock.advance(500)
    await settle()
  }
  t.strictSame(tries.splice(0), [
    ['kas-1', 0],
    ['kas-1', 1000],
    ['kas-1', 2000],
  ])
  t.equal(clock.pending, 0)
  failures = 99
  reach('kas-2')
  for (let i = 0; i < 10; i++) {
    await settle()
    clock.advance(1000)
  }
  t.strictSame(
    tries,
    [2000, 3000, 4000, 5000, 6000].map((at) => ['kas-2', at]),
  )
  t.match(lines, [{ level: 'debug', instance: 'kas-2-1', msg: 'A replica could not be greeted' }])
  t.equal(clock.pending, 0)
})

t.test('one that is too old to be greeted is left alone', async (t) => {
  const { peers, reach, clock, lines } = start(t)
  let tries = 0
  peers.onReached(async () => {
    tries++
    throw unknown
  })
  reach('kas-1')
  await settle()
  t.equal(clock.pending, 0)
  t.equal(tries, 1)
  t.match(lines, [{ level: 'debug', msg: 'A replica could not be greeted' }])
})

t.test('nobody is greeted after the stop, nor after the end of the subscription', async (t) => {
  const { peers, reach, clock } = start(t)
  let tries = 0
  const running = Promise.withResolvers<void>()
  const fail = async () => {
    tries++
    throw new KasError({ code: 'UNAUTHENTICATED' })
  }
  const end = peers.onReached(fail)
  reach('kas-1')
  await settle()
  end()
  clock.advance(1000)
  await settle()
  t.equal(tries, 1)
  peers.onReached(fail)
  peers.onReached(() => running.promise)
  await settle()
  t.equal(clock.pending, 1)
  peers.stop()
  t.equal(clock.pending, 0)
  running.reject(new KasError({ code: 'UNAUTHENTICATED' }))
  reach('kas-2')
  await settle()
  t.equal(clock.pending, 0, 'nor one that was being greeted')
  t.equal(tries, 2)
})

t.test('a replica that is alone', async (t) => {
  t.equal(noPeers.isFirst('42'), true)
  t.equal(noPeers.isReachable(instance('kas-1')), false)
  t.equal((await noPeers.broadcast(passedOn, request)).size, 0)
  await t.rejects(noPeers.call(instance('kas-1'), passedOn, request), { code: 'CANCELLED' })
  noPeers.onReached(async () => void t.fail('there is nobody'))()
})
