import t, { type Test } from 'tap'
import type { Serve } from '../../src/agentk/tunnels/serve.ts'
import type { Call } from '../../src/call/call.ts'
import { KnownMessages } from '../../src/call/known-messages.ts'
import { abortable } from '../../src/lib/signals.ts'
import { startConnections } from '../contract/agentk/connections-side.ts'
import { agentId, callThrough } from '../support/agents-server.ts'
import { eventually } from '../support/eventually.ts'
import { echoMethod, FakeAgent } from '../support/fake-agent.ts'
import { knows, startWholeReplicas, type WholeReplica } from './whole-replica.ts'

/**
 * The most calls that one caller may have on a connection, for an agent with two idle tunnels. They enter at a replica
 * without a tunnel.
 */

const calls = 450
/**
 * far above the time to hand a tunnel over on a busy machine, and below the interval of all that would repair a
 * failure. ms
 */
const handedOverMs = 2000

/** metadata key that names the call */
const key = 'call'

/** Makes all calls; half of them create an object, half list objects. */
function callAll({ forward }: WholeReplica) {
  const safely = (text: string): Partial<Call> => ({
    safety: 'safe',
    messages: new KnownMessages([Buffer.from(text)]),
  })
  return Promise.all(
    Array.from({ length: calls }, (_, i) => {
      const metadata = { [key]: [`${i}`] }
      return callThrough(forward, [`${i}`], { metadata, ...(i % 2 ? safely(`${i}`) : {}) })
    }),
  )
}

function eachHasItsOwn(t: Test, replies: Awaited<ReturnType<typeof callAll>>): void {
  t.strictSame(
    replies.map(({ messages, error }) => error?.message ?? messages.join()),
    replies.map((_, i) => `${i}`),
    'each call has its own answer',
  )
}

/** Checks that each unsafe call came once. Safe calls may come twice on a busy machine. */
function unsafeOnce(t: Test, served: readonly string[]): void {
  const unsafe = served.map(Number).filter((call) => call % 2 === 0)
  t.strictSame(
    unsafe.sort((a, b) => a - b),
    Array.from({ length: calls / 2 }, (_, i) => 2 * i),
    'each call that changes something is served once',
  )
}

async function twoReplicas(t: Test): Promise<{ entry: WholeReplica; holder: WholeReplica }> {
  const [entry, holder] = (await startWholeReplicas(t, 2)) as [WholeReplica, WholeReplica]
  return { entry, holder }
}

/** Resolves once two tunnels are idle at the holder, and the entry knows that it holds the agent. */
async function twoIdle({ entry, holder }: { entry: WholeReplica; holder: WholeReplica }): Promise<void> {
  await knows(entry, holder)
  await eventually(() => {
    const { idle } = holder.tunnels.counts(agentId, echoMethod)
    if (idle !== 2) throw new Error(`${idle} tunnels are idle`)
  })
}

t.test('agentk opens tunnels as they are asked for: all calls are served at the same time', async (t) => {
  const { entry, holder } = await twoReplicas(t)
  const all = Promise.withResolvers<void>()
  const served: string[] = []
  /** answers none before all have come: one call that waits for a tunnel stops all others */
  const together: Serve = async (call) => {
    served.push(call.metadata[key]?.[0] ?? '')
    if (new Set(served).size === calls) all.resolve()
    await abortable(all.promise, call.signal)
    const done = Promise.resolve({ trailers: {} })
    return { metadata: Promise.resolve({ at: ['once'] }), messages: call.messages, done }
  }
  const agentk = await startConnections(t, `grpc://127.0.0.1:${holder.agentsPort}`, {
    methods: { [echoMethod]: together },
  })
  await twoIdle({ entry, holder })
  t.match(agentk.counts, { idle: 2, active: 0 })
  eachHasItsOwn(t, await callAll(entry))
  unsafeOnce(t, served)
})

t.test('an agent that has two tunnels at any time: whichever is idle gets the next call', async (t) => {
  const { entry, holder } = await twoReplicas(t)
  const agent = await FakeAgent.dial(holder.agentsPort)
  t.teardown(() => agent.close())
  /** times from the offer of a tunnel to the arrival of its call. ms */
  const waits: number[] = []
  const served: string[] = []
  let open = 0
  const serve = async (): Promise<void> => {
    while (!agent.session.draining) {
      open += 1
      const tunnel = agent.open()
      const offeredAt = performance.now()
      await tunnel.serveEcho((call) => {
        waits.push(performance.now() - offeredAt)
        if (call.kind === 'requestInfo') served.push(call.meta[key]?.[0] ?? '')
      })
      open -= 1
    }
  }
  void serve()
  void serve()
  await twoIdle({ entry, holder })
  const watched = watchQueue(holder)
  const replies = await callAll(entry)
  const seen = watched.end()
  eachHasItsOwn(t, replies)
  unsafeOnce(t, served)
  t.equal(open, 2)
  t.ok(seen.looks > calls, 'looked at all the while')
  t.equal(seen.idleBesideWaiting, 0, 'at no moment a call waits at the holder beside an idle tunnel')
  const [slowest = 0] = waits.slice(2).sort((a, b) => b - a) // the first two tunnels were there before
  t.ok(slowest < handedOverMs, 'none waits at the entry beside an idle tunnel')
  t.comment(`an idle tunnel waited ${slowest.toFixed(0)} ms at the most for the next of the calls`)
})

/** Reads the counts of a replica's tunnels at each turn of the event loop, until `end`. */
function watchQueue({ tunnels }: WholeReplica): { end(): { looks: number; idleBesideWaiting: number } } {
  const seen = { looks: 0, idleBesideWaiting: 0 }
  const look = () => {
    const { idle, waiting } = tunnels.counts(agentId, echoMethod)
    seen.looks += 1
    if (idle > 0 && waiting > 0) seen.idleBesideWaiting += 1
    turn = setImmediate(look)
  }
  let turn = setImmediate(look)
  return {
    end: () => {
      clearImmediate(turn)
      return seen
    },
  }
}
