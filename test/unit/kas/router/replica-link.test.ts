import t, { type Test } from 'tap'
import { ReplicaLink } from '../../../../src/kas/router/replica-link.ts'
import { createLogger } from '../../../../src/lib/log.ts'
import type { AgentId, Call, Metadata, Outcome, Safety } from '../../../../src/proto/call.ts'
import type { ClientSession } from '../../../../src/proto/grpc/client-session.ts'
import { KnownMessages } from '../../../../src/proto/known-messages.ts'

/** A connection to a replica that says `ready` to each call, and then nothing any more. */
function silentSession() {
  const opened: { answer: () => void }[] = []
  const open: ClientSession['open'] = ({ onInterim }) => {
    const metadata = Promise.withResolvers<Metadata>()
    const done = Promise.withResolvers<Outcome>()
    onInterim?.({ 'kas-tunnel': ['ready'] })
    opened.push({ answer: () => metadata.resolve({ served: ['yes'] }) })
    return {
      metadata: metadata.promise,
      done: done.promise,
      send: () => undefined,
      end: () => undefined,
      cancel: (error: Outcome['error']) => {
        metadata.resolve({})
        done.resolve({ ...(error ? { error } : {}), trailers: {} })
      },
    } as unknown as ReturnType<ClientSession['open']>
  }
  const session = {
    open,
    draining: false,
    bytesRead: 0,
    closed: new Promise<void>(() => undefined),
    ping: () => new Promise<number>(() => undefined),
    destroy: () => undefined,
  }
  return { opened, session: session as unknown as ClientSession }
}

async function linkTo(t: Test, session: ClientSession) {
  const changed = new EventTarget()
  const link = new ReplicaLink(
    {
      dial: async () => session,
      now: () => performance.now(),
      random: Math.random,
      log: createLogger({ level: 'silent' }),
      onChange: () => void changed.dispatchEvent(new Event('change')),
      onUnknown: () => undefined,
    },
    { reachability: { roundMs: 20, suspectMs: 30, silentRounds: 3 }, redialMs: [5, 50] },
  )
  t.teardown(() => link.close())
  const until = (reach: ReplicaLink['reach']) =>
    new Promise<void>((resolve) => {
      changed.addEventListener('change', () => link.reach === reach && resolve())
    })
  const reachable = until('reachable')
  link.open()
  await reachable
  return { link, until }
}

async function handOver(link: ReplicaLink, safety: Safety) {
  const { signal } = new AbortController()
  const method = '/a.B/C'
  const messages = new KnownMessages([])
  const call: Call = { agentId: 42n as AgentId, method, metadata: {}, messages, safety, signal }
  const offer = await link.ask(call, { waitMs: 0, eager: false, signal })
  if (!offer) throw new Error('there was an offer')
  return offer.forward(call)
}

t.test('a replica falls silent: safe calls without an answer are lost, others wait for it', async (t) => {
  const { session, opened } = silentSession()
  const { link, until } = await linkTo(t, session)
  const [unanswered, answered, unsafe] = await Promise.all([
    handOver(link, 'safe'),
    handOver(link, 'safe'),
    handOver(link, 'unsafe'),
  ])
  opened[1]?.answer()
  await answered.metadata
  const ended: string[] = []
  void answered.done.then(() => ended.push('answered'))
  void unsafe.done.then(() => ended.push('unsafe'))
  await until('unreachable')
  t.match((await unanswered.done).error?.spec, { code: 'TUNNEL_LOST', delivery: 'maybe' })
  t.same(ended, [])
})
