import assert from 'node:assert/strict'
import t, { type Test } from 'tap'
import type { KasConnections } from '../../src/agentk/tunnels/kas-connections.ts'
import type { AgentId } from '../../src/call/call.ts'
import type { KasError } from '../../src/lib/errors.ts'
import { homeOf } from '../../src/ring/home.ts'
import { echoMethod, startConnections } from '../contract/agentk/connections-side.ts'
import { agentId, callThrough } from '../support/agents-server.ts'
import { eventually } from '../support/eventually.ts'
import { type PlacedReplica, startPlacedReplica } from './placed-replica.ts'
import { knowsAll } from './replicas.ts'

/** agentk and replicas: each pod connects to the replicas that the ring names (doc/internals/agentk-placement.md). */

const pods = ['pod-a', 'pod-b']
const names = (count: number) => Array.from({ length: count }, (_, i) => `kas-${i}`)

async function startAll(t: Test, count: number): Promise<PlacedReplica[]> {
  const all: PlacedReplica[] = []
  for (const name of names(count)) all.push(await join(t, all, name))
  return all
}

async function join(t: Test, others: readonly PlacedReplica[], name: string): Promise<PlacedReplica> {
  const replica = await startPlacedReplica(
    t,
    name,
    others.map(({ address }) => address),
  )
  const all = [...others, replica]
  for (const { source } of all) source.list(all.map(({ address }) => address))
  for (const each of all) await eventually(() => knowsAll(each, all), each.membership)
  return replica
}

/** Places of the pods by the ring of any living replica. */
function wanted({ membership }: PlacedReplica) {
  return pods.map((pod) => {
    const { home, standby } = homeOf(membership.rank(String(agentId)), pods, pod) ?? {}
    return { home, standby }
  })
}

const settled = (agents: readonly KasConnections[], living: PlacedReplica) =>
  eventually(
    () =>
      assert.deepEqual(
        agents.map(({ places }) => places),
        wanted(living),
      ),
    { timeoutMs: 20_000 },
  )

async function startPods(t: Test, entry: PlacedReplica): Promise<KasConnections[]> {
  const times = { lostMs: 500 }
  return Promise.all(pods.map((pod) => startConnections(t, entry.agentAddress, { pod, times })))
}

/** The table, as one replica sees it. */
function table({ membership }: PlacedReplica) {
  const rows = membership
    .rows()
    .flatMap(({ head, connections }) =>
      [...connections.values()].map(({ pod, role }) => ({ replica: head.name, pod, role })),
    )
  return rows.map(({ replica, pod, role }) => `${pod} ${role} ${replica}`).sort()
}

const tableSays = (replica: PlacedReplica, expected: string[]) =>
  eventually(() => assert.deepEqual(table(replica), expected.sort()))

async function serves(t: Test, { forward }: PlacedReplica): Promise<void> {
  t.same((await callThrough(forward, ['x'], { method: echoMethod })).messages, ['x'])
}

t.test('two pods live on two replicas, each with a standby at another, and the table says so', async (t) => {
  const all = await startAll(t, 3)
  const [entry] = all as [PlacedReplica]
  const agents = await startPods(t, entry)
  await settled(agents, entry)
  const expected = wanted(entry).flatMap(({ home, standby }, i) => [
    `${pods[i]} home ${home}`,
    `${pods[i]} standby ${standby}`,
  ])
  for (const replica of all) await tableSays(replica, expected)
  for (const replica of all) if (replica.tunnels.holds(agentId as AgentId)) await serves(t, replica)
})

t.test('a home that dies: pods are at their new places; one that joins: those whose home it is move', async (t) => {
  const all = await startAll(t, 3)
  const [entry] = all as [PlacedReplica]
  const agents = await startPods(t, entry)
  await settled(agents, entry)
  const dead = all.find(({ name }) => name !== entry.name && wanted(entry).some(({ home }) => home === name))
  t.ok(dead)
  await dead?.kill()
  const living = all.filter((replica) => replica !== dead)
  await eventually(() => assert.equal(entry.membership.rank('42').length, 2))
  await settled(agents, entry)
  for (const replica of living) await serves(t, replica)
  const fresh = await join(t, living, dead?.name ?? '')
  await settled(agents, fresh)
  await serves(t, fresh)
})

t.test('a replica that leaves: its pods go at once, and no call is lost on the way', async (t) => {
  const all = await startAll(t, 3)
  const [entry] = all as [PlacedReplica]
  const agents = await startPods(t, entry)
  await settled(agents, entry)
  const leaving = all.find(({ name }) => wanted(entry)[0]?.home === name) as PlacedReplica
  const stayer = all.find((replica) => replica !== leaving) as PlacedReplica
  const more = Promise.withResolvers<void>()
  const long = callThrough(leaving.forward, [], {
    method: echoMethod,
    messages: (async function* () {
      yield Buffer.from('before')
      await more.promise
      yield Buffer.from('after')
    })(),
  })
  const counts = { served: 0, late: 0 }
  const call = async (): Promise<void> => {
    while (leaving.tunnels.holds(agentId)) {
      const { messages, error } = await callThrough(leaving.forward, ['x'], { method: echoMethod }).catch(failed)
      if (messages[0] === 'x') counts.served += 1
      else if (/^AGENT_(NOT_CONNECTED|SATURATED)$/.test(error?.code ?? ''))
        counts.late += 1 // nothing was sent
      else t.fail('a call was lost', { error })
      if (counts.late > 0) return
    }
  }
  const callers = Array.from({ length: 4 }, call)
  leaving.membership.setState('leaving')
  await leaving.agents.leave()
  await settled(agents, stayer)
  await Promise.all(callers)
  t.ok(counts.served > 0, `${counts.served} calls`)
  more.resolve()
  t.same((await long).messages, ['before', 'after'], 'what ran goes on')
  await eventually(() => assert.equal(leaving.tunnels.holds(agentId), false))
})

const failed = (error: KasError) => ({ messages: [] as string[], error })
