import t from 'tap'
import { eventually } from '../support/eventually.ts'
import { Losses } from '../support/network/losses.ts'
import { membersOf, NetworkCluster } from '../support/network/network-cluster.ts'
import type { NetworkReplica } from '../support/network/network-replica.ts'
import { inOwnNetwork } from '../support/network/own-network.ts'
import { VirtualNetwork } from '../support/network/virtual-network.ts'

/**
 * Replicas with addresses of their own, two of which do not reach one another on some ports, and one with a wrong
 * clock.
 */

/** agents; two replicas hold `shared`, and the one of higher rank cannot be reached */
const shared = 42
const lonely = 43
const warning = 'Calls cannot be handed to a replica: its private API does not answer'

inOwnNetwork(
  t,
  { file: import.meta.filename, name: 'replicas in network namespaces: links', needs: [], timeoutMs: 120_000 },
  () => {
    t.test('three replicas on a list, one with a clock 60 s off', async (t) => {
      const network = await VirtualNetwork.start()
      const hosts = [await network.add('kas-0'), await network.add('kas-1'), await network.add('kas-2')]
      const cluster = await NetworkCluster.start(t, network)
      const discovery = { static: hosts.map(({ ipv4 }) => `${ipv4}:8156`) }
      for (const [i, host] of hosts.entries())
        await cluster.add(host, { discovery, ...(i === 1 && { clockMs: 60_000 }) })
      const [a, b, c] = cluster.replicas as [NetworkReplica, NetworkReplica, NetworkReplica]
      await cluster.agree()

      await t.test('its clock is set right, and wrong again: nothing changes', async (t) => {
        const losses = await Losses.watch(t, cluster.replicas)
        b.signal('SIGUSR2')
        await brokenOnOneSide(cluster, a, b)
        b.signal('SIGUSR2')
        await brokenOnOneSide(cluster, a, b)
        t.strictSame((await losses.stop()).losses, [])
      })

      await t.test('8155 does not reach from one to the other, 8156 does', async (t) => {
        await cluster.agentAt(b, shared)
        await cluster.agentAt(c, shared)
        await cluster.agentAt(b, lonely)
        for (const replica of cluster.replicas) await holds(replica, { [shared]: 'kas-1 kas-2', [lonely]: 'kas-1' })
        for (const id of [shared, lonely] as const) t.match(await cluster.call(a, id), { code: 0 })
        const [{ rank = [] } = {}] = (await a.status(shared)).agents
        t.ok(rank.indexOf('kas-1') < rank.indexOf('kas-2'), 'a call from kas-0 goes to kas-1 first')

        const before = new Map(cluster.replicas.map((replica) => [replica, problems(replica).length]))
        const told = (replica: NetworkReplica) => problems(replica).slice(before.get(replica))
        await network.cut(a.host, b.host, 8155)
        const first = await cluster.call(a, shared)
        t.match(first, { code: 0 }, 'the first call finds the other way')
        t.comment(`it took ${Math.round(first.tookMs)} ms`)
        await unreachable(a, 'kas-1')
        await unreachable(b, 'kas-0')
        const second = await cluster.call(a, shared)
        t.match(second, { code: 0 })
        t.comment(`and the second ${Math.round(second.tookMs)} ms`)
        const stuck = await cluster.call(a, lonely)
        t.match(stuck, { code: 14, details: /replica/ })
        t.strictSame(stuck.trailers.get('kas-delivery'), ['none'])
        t.comment(`${stuck.details}, after ${Math.round(stuck.tookMs)} ms`)
        t.match(await cluster.call(c, lonely), { code: 0 }, 'by a third replica it works')

        await cluster.agentAt(b, shared)
        await holds(a, { [shared]: 'kas-1 kas-2' }, 3)
        await cluster.agree({ withoutLinks: true })

        await a.said(warning)
        await b.said(warning)
        const tries = 'A replica could not be reached'
        await a.said(tries, { count: a.lines(tries).length + 2 })
        t.match(told(a), [{ level: 'warn', name: 'kas-1', net_address: `${b.host.ipv4}:8155` }], 'once')
        t.match(told(b), [{ level: 'warn', name: 'kas-0', net_address: `${a.host.ipv4}:8155` }], 'once')
        t.strictSame(told(c), [])
        t.strictSame(await links(a), { reachable: 1, out: 1 })
        t.strictSame(await links(c), { reachable: 2, out: 0 })

        await network.heal(a.host, b.host, 8155)
        await cluster.agree({ timeoutMs: 20_000 })
        for (const replica of [a, b]) await replica.said('Calls can be handed to the replica again')
        t.match(await cluster.call(a, lonely), { code: 0 })
        t.equal(told(a).length, 1)
      })
    })
  },
)

/** All warnings and errors that the replica logs. */
const problems = (replica: NetworkReplica) =>
  replica.lines().filter(({ level }) => level === 'warn' || level === 'error')

/**
 * Ends the gossip between the two so that `other` does not notice it. `one` dials again, and the messages of `other`
 * must arrive.
 */
async function brokenOnOneSide(cluster: NetworkCluster, one: NetworkReplica, other: NetworkReplica): Promise<void> {
  const { network } = cluster
  await network.cut(one.host, other.host, 8156)
  if ((await network.reset(one.host, 8156)) === 0) throw new Error('there was no gossip to break')
  await network.heal(one.host, other.host, 8156)
  await cluster.agree()
  const agent = await cluster.agentAt(other, shared)
  await holds(one, { [shared]: other.name }, undefined, 4000)
  agent.close()
  await holds(one, { [shared]: '' }, undefined, 4000)
}

/** Resolves once the replica names these holders of the agents. @param connections - total of all agents */
async function holds(
  replica: NetworkReplica,
  expected: Readonly<Record<number, string>>,
  connections?: number,
  timeoutMs = 10_000,
): Promise<void> {
  for (const [id, names] of Object.entries(expected)) {
    await eventually(
      async () => {
        const { agents } = await replica.status(Number(id))
        const holders = agents[0]?.holders ?? []
        const found = holders.map(({ name }) => name).sort()
        const count = holders.reduce((sum, holder) => sum + holder.connections, 0)
        if (found.join(' ') !== names || count !== (connections ?? count)) {
          throw new Error(`as ${replica.name} sees it ${id} is at ${found.join(' ')}, ${count} connections`)
        }
      },
      { timeoutMs },
    )
  }
}

async function unreachable(replica: NetworkReplica, name: string): Promise<void> {
  await eventually(async () => {
    const member = (await membersOf(replica)).find((one) => one.name === name)
    if (member?.reach !== 'unreachable' && member?.reach !== 'down') throw new Error(`${name} is ${member?.reach}`)
    if (!member.gossip) throw new Error('the gossip is gone too')
  })
}

/** Links by the replica's metrics. */
async function links(replica: NetworkReplica) {
  const text = await replica.metrics()
  const value = (reach: string) =>
    Number(new RegExp(`^kas_replica_links\\{reach="${reach}"\\} (\\d+)$`, 'm').exec(text)?.[1])
  return { reachable: value('reachable') + value('suspect'), out: value('unreachable') + value('down') }
}
