import t, { type Test } from 'tap'
import type { AgentId, Call, Outcome, Safety } from '../../../../src/call/call.ts'
import { kasCaller } from '../../../../src/call/caller.ts'
import { KnownMessages } from '../../../../src/call/known-messages.ts'
import { UnreadByAgent } from '../../../../src/kas/memory/unread-by-agent.ts'
import { Link, type LinkComponents } from '../../../../src/kas/peers/link.ts'
import { monotonicClock } from '../../../../src/lib/clock.ts'
import { KasError } from '../../../../src/lib/errors.ts'
import { Cancellation } from '../../../../src/lib/signals.ts'
import { noTracer } from '../../../../src/lib/tracing/tracer.ts'
import type { ClientSession } from '../../../../src/proto/grpc/client-session.ts'
import { encodeHeaders } from '../../../../src/proto/grpc/lane-frames.ts'
import { replicaLimits } from '../../../../src/proto/grpc/limits.ts'
import type { UnreadBytes } from '../../../../src/proto/grpc/unread-bytes.ts'
import { SimulatedInbox } from '../../../simulator/simulated-inbox.ts'
import { capturedLog } from '../../../support/captured-log.ts'

const lost = (error: KasError): Outcome => ({ error, trailers: {} })

interface Opened {
  readonly sent: string[]
  unread?: UnreadBytes | undefined
  answer(): void
  /** Ends the call by trailers, or its lane by an error. */
  end(outcome: Outcome): void
  close(): void
}

/**
 * A connection to a replica that sends `ready` for each call and nothing after that. If mute, it sends nothing at all.
 */
function unansweredSession({ pongs = () => false, isMute = false }: { pongs?: () => boolean; isMute?: boolean } = {}) {
  const opened: Opened[] = []
  const closed = Promise.withResolvers<void>()
  const draining = Promise.withResolvers<void>()
  /** Opens a lane; one call begins on it at once. */
  const open = () => {
    const done = Promise.withResolvers<Outcome>()
    const sent: string[] = []
    const streamClosed = Promise.withResolvers<void>()
    const inbox = new SimulatedInbox(() => undefined)
    const lose = (outcome: Outcome) => {
      done.resolve(outcome)
      inbox.fail(outcome.error as KasError)
    }
    const finish = ({ error, trailers }: Outcome) => {
      if (error) return lose({ error, trailers })
      const lines = Object.entries(trailers).map(([key, values = []]) => [key, values.join()])
      inbox.add(encodeHeaders('trailers', { 'grpc-status': '0', ...Object.fromEntries(lines) }))
    }
    const answer = () => inbox.add(encodeHeaders('head', { served: 'yes' }))
    const one: Opened = { sent, answer, end: finish, close: streamClosed.resolve }
    opened.push(one)
    if (!isMute) inbox.add(encodeHeaders('interim', { 'kas-tunnel': 'ready' }))
    return {
      metadata: new Promise(() => undefined),
      done: done.promise,
      inbox,
      unsentBytes: 0,
      wasReset: false,
      limit: () => undefined,
      receives: () => undefined,
      chargeTo: (unread: UnreadBytes | undefined) => {
        one.unread = unread
      },
      send: (frame: Uint8Array, head?: Uint8Array) => {
        if (head) sent.push(Buffer.from(frame).toString())
      },
      end: () => undefined,
      onClosed: (listener: () => void) => void streamClosed.promise.then(listener),
      cancel: (error = new KasError({ code: 'CANCELLED' })) => lose(lost(error)),
    }
  }
  const session = {
    open,
    limits: replicaLimits,
    draining: false,
    destroyed: false,
    bytesRead: 0,
    closed: closed.promise,
    onDraining: (listener: () => void) => void draining.promise.then(listener),
    ping: () => (pongs() ? Promise.resolve(1) : new Promise<number>(() => undefined)),
    close: () => undefined,
    drain: () => {
      session.draining = true
      draining.resolve()
    },
    destroy: () => {
      session.destroyed = true
      session.drain()
      closed.resolve()
    },
  }
  const { drain } = session
  return { opened, closed: closed.promise, drain, session: session as unknown as ClientSession }
}

const reachability = { roundMs: 20, hurryMs: 5, suspectMs: 30, unreachableMs: 60, lostMs: 200 }

async function linkTo(
  t: Test,
  sessions: ClientSession | ClientSession[],
  timers: Partial<typeof reachability> = {},
  redialMs: readonly [number, number] = [5, 50],
  more: Partial<LinkComponents> = {},
) {
  const rest = [sessions].flat()
  const changed = new EventTarget()
  const { log, lines } = capturedLog()
  const link = new Link(
    {
      dial: async () => {
        const session = rest.shift()
        if (!session) throw new Error('there is no other connection')
        return session
      },
      clock: monotonicClock,
      random: Math.random,
      log,
      onChange: () => void changed.dispatchEvent(new Event('change')),
      onUnknown: () => undefined,
      tracer: noTracer,
      attributes: {},
      ...more,
    },
    { reachability: { ...reachability, ...timers }, redialMs },
  )
  t.teardown(() => link.close())
  const becomes = (reach: Link['reach']) =>
    new Promise<void>((resolve) => {
      changed.addEventListener('change', () => link.reach === reach && resolve())
    })
  const reachable = becomes('reachable')
  link.open()
  await reachable
  return { link, becomes, lines }
}

function callWith(messages: KnownMessages, safety: Safety = 'safe'): Call {
  const { signal } = new AbortController()
  return { agentId: 42n as AgentId, method: '/a.B/C', metadata: {}, messages, safety, caller: kasCaller, signal }
}

async function handOver(link: Link, safety: Safety, tryElsewhere = () => false) {
  const call = callWith(new KnownMessages([Buffer.from('a')]), safety)
  const offer = await link.askForTunnel(call, {
    waitMs: 0,
    eager: false,
    tryElsewhere,
    cancellation: new Cancellation(),
  })
  if (typeof offer === 'string') throw new Error(offer)
  return { offer, call }
}

async function forward(...asked: Parameters<typeof handOver>) {
  const { offer, call } = await handOver(...asked)
  return offer.forward(call)
}

t.test('a replica falls silent: safe calls without an answer are lost, others wait for it', async (t) => {
  const { session, opened } = unansweredSession()
  const { link, becomes } = await linkTo(t, session, { lostMs: 60_000 })
  const [unanswered, answered, unsafe] = await Promise.all([
    forward(link, 'safe'),
    forward(link, 'safe'),
    forward(link, 'unsafe'),
  ])
  opened[1]?.answer()
  await answered.metadata
  const ended: string[] = []
  void answered.done.then(() => ended.push('answered'))
  void unsafe.done.then(() => ended.push('unsafe'))
  await becomes('unreachable')
  t.match((await unanswered.done).error?.spec, { code: 'TUNNEL_LOST', delivery: 'maybe' })
  t.same(ended, [])
})

t.test(
  'a call that its caller opens again is lost once the replica is unreachable, also when it was answered',
  async (t) => {
    const { session, opened } = unansweredSession()
    const { link, becomes } = await linkTo(t, session, { lostMs: 60_000 })
    const { offer, call } = await handOver(link, 'safe')
    const reopened = offer.forward({ ...call, reopens: true })
    const kept = await forward(link, 'safe')
    for (const each of opened) each.answer()
    await Promise.all([reopened.metadata, kept.metadata])
    const ended: string[] = []
    void kept.done.then(() => ended.push('kept'))
    await becomes('unreachable')
    t.match((await reopened.done).error?.spec, { code: 'TUNNEL_LOST', delivery: 'maybe' })
    t.same(ended, [])
  },
)

t.test('safe calls that can go elsewhere do not wait until the replica is unreachable', async (t) => {
  const { session } = unansweredSession()
  const { link } = await linkTo(t, session, { unreachableMs: 60_000, lostMs: 60_000 })
  const [free, bound] = await Promise.all([forward(link, 'safe', () => true), forward(link, 'safe')])
  const ended: string[] = []
  void bound.done.then(() => ended.push('bound'))
  t.match((await free.done).error?.spec, { code: 'TUNNEL_LOST', delivery: 'maybe' })
  t.same(ended, [])
  t.equal(link.reach, 'suspect')
})

t.test('a safe call of a replica that answers PINGs may take its time', async (t) => {
  let pings = 0
  const enough = Promise.withResolvers<void>()
  const pongs = () => {
    if (++pings === 20) enough.resolve() // far more than suspectMs
    return true
  }
  const { session, opened } = unansweredSession({ pongs })
  const { link } = await linkTo(t, session)
  const reply = await forward(link, 'safe', () => true)
  await enough.promise
  opened[0]?.answer()
  t.same(await reply.metadata, { served: ['yes'] })
})

t.test('a silent connection is given up at last, and dialled again', async (t) => {
  const { session, closed } = unansweredSession()
  const { becomes, lines } = await linkTo(t, session)
  const down = becomes('down')
  await closed
  await down
  t.equal(lines.filter(({ msg }) => String(msg).startsWith('A replica does not answer')).length, 1)
})

t.test('a call of which nothing was sent was not delivered, however its connection ended', async (t) => {
  const specOf = async (done: Promise<Outcome>) => (await done).error?.spec
  const { session, opened } = unansweredSession()
  const { link } = await linkTo(t, session)
  const gone = lost(new KasError({ code: 'TUNNEL_LOST', delivery: 'maybe' }))
  const early = await handOver(link, 'unsafe')
  opened[0]?.end(gone)
  await new Promise(setImmediate)
  t.match(await specOf(early.offer.forward(early.call).done), { code: 'TUNNEL_LOST', delivery: 'none' })
  t.same(opened[0]?.sent, [])
  const late = await handOver(link, 'unsafe')
  const reply = late.offer.forward(late.call)
  opened[1]?.end(gone)
  t.match(await specOf(reply.done), { code: 'TUNNEL_LOST', delivery: 'maybe' })
  t.same(opened[1]?.sent, ['', 'a'], 'the sign that the tunnel is used, and the message')
})

t.test('a connection that drains is replaced at once, and its calls go on', async (t) => {
  const [first, second] = [unansweredSession({ pongs: () => true }), unansweredSession({ pongs: () => true })]
  // any pause would outlast the test
  const { link, becomes } = await linkTo(t, [first.session, second.session], {}, [60_000, 0])
  const reply = await forward(link, 'unsafe')
  const down = becomes('down')
  const again = becomes('reachable')
  first.drain()
  await down
  await again
  await forward(link, 'unsafe')
  t.equal(second.opened.length, 1, 'new calls go over the new one')
  const ended: string[] = []
  void reply.done.then(() => ended.push('first'))
  await new Promise(setImmediate)
  t.same(ended, [])
  first.opened[0]?.end({ trailers: {} })
  t.same(await reply.done, { trailers: {} })
})

t.test('one that drains is watched to its end: calls on a silent one are lost', async (t) => {
  const [first, second] = [unansweredSession(), unansweredSession({ pongs: () => true })]
  const { link, becomes } = await linkTo(t, [first.session, second.session], {}, [60_000, 0])
  const reply = await forward(link, 'safe')
  const again = becomes('reachable')
  first.drain()
  await again
  t.match((await reply.done).error?.spec, { code: 'TUNNEL_LOST', delivery: 'maybe' })
  await first.closed
  t.equal(link.reach, 'reachable')
})

t.test('retired, it waits for all of its connections', async (t) => {
  const [first, second] = [unansweredSession({ pongs: () => true }), unansweredSession({ pongs: () => true })]
  const { link, becomes } = await linkTo(t, [first.session, second.session], {}, [60_000, 0])
  const again = becomes('reachable')
  first.drain()
  await again
  const ended: string[] = []
  const retired = link.retire().then(() => ended.push('retired'))
  second.session.destroy()
  await second.closed
  await new Promise(setImmediate)
  t.same(ended, [])
  first.session.destroy()
  await retired
})

/** Returns the agent's count of unread bytes; a new one if nobody uses it. */
function unreadNow(unreadByAgent: UnreadByAgent): UnreadBytes {
  const account = unreadByAgent.enter(42n as AgentId)
  account.leave()
  return account.unread
}

t.test('what a call holds is counted until nothing of its stream is left, also after its end', async (t) => {
  const unreadByAgent = new UnreadByAgent()
  const { session, opened } = unansweredSession({ pongs: () => true })
  const { link } = await linkTo(t, session, {}, [5, 50], { unreadByAgent })
  const reply = await forward(link, 'unsafe')
  const [stream] = opened
  const { unread } = stream ?? {}
  stream?.end(lost(new KasError({ code: 'TUNNEL_LOST', delivery: 'maybe' })))
  await reply.done
  await new Promise(setImmediate)
  t.equal(unreadNow(unreadByAgent), unread)
  stream?.close()
  await new Promise(setImmediate)
  t.not(unreadNow(unreadByAgent), unread)
})

t.test('a call that cannot be handed over is none that the replica was asked for, and holds nothing', async (t) => {
  const unreadByAgent = new UnreadByAgent()
  const { session } = unansweredSession({ pongs: () => true })
  const unread: UnreadBytes[] = []
  session.open = () => {
    unread.push(unreadNow(unreadByAgent))
    throw new KasError({ code: 'TUNNEL_LOST', delivery: 'none' })
  }
  const { link } = await linkTo(t, session, {}, [5, 50], { unreadByAgent })
  const call = callWith(new KnownMessages([Buffer.from('a')]))
  const cancellation = new Cancellation()
  t.equal(await link.askForTunnel(call, { waitMs: 0, eager: true, tryElsewhere: () => false, cancellation }), 'none')
  t.equal(unread.length, 1)
  t.not(unreadNow(unreadByAgent), unread[0])
  t.equal(link.calls, 0)
})

const notKnown = new KasError({ code: 'STATUS', grpc: 16, message: 'no row has this key yet' })

for (const [said, error, trailers, expected] of [
  ['that it has no tunnel', undefined, { 'kas-tunnel': ['none'] }, 'none'],
  ['that it does not know us', notKnown, { 'kas-tunnel': ['unknown'] }, 'unanswered'],
  ['nothing: the stream is lost', new KasError({ code: 'TUNNEL_LOST', delivery: 'maybe' }), {}, 'unanswered'],
] as const) {
  t.test(`a replica that says ${said}: ${expected}`, async (t) => {
    const { session, opened } = unansweredSession({ pongs: () => true, isMute: true })
    const { link } = await linkTo(t, session)
    const call = callWith(new KnownMessages([]))
    const cancellation = new Cancellation()
    const offer = link.askForTunnel(call, { waitMs: 1000, eager: false, tryElsewhere: () => false, cancellation })
    opened[0]?.end({ error, trailers })
    t.equal(await offer, expected)
  })
}
