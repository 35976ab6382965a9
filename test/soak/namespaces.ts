import assert from 'node:assert/strict'
import t from 'tap'
import { missingAssets } from '../../dev/control-plane/assets.ts'
import { ControlPlane } from '../../dev/control-plane/control-plane.ts'
import { eventually } from '../support/eventually.ts'
import { discoveryRounds, type Round, type SourceFault } from '../support/network/discovery-rounds.ts'
import { Losses } from '../support/network/losses.ts'
import { membersOf, NetworkCluster } from '../support/network/network-cluster.ts'
import type { NetworkReplica } from '../support/network/network-replica.ts'
import { inOwnNetwork } from '../support/network/own-network.ts'
import { type Host, VirtualNetwork } from '../support/network/virtual-network.ts'
import type { TornDown } from '../support/processes.ts'

/**
 * Each source of discovery alone, and each of its faults, at all replicas at once, until the usual timers notice it.
 * Meanwhile the gossip is broken, and a replica is killed and starts again.
 */

const assets = process.env.KUBEBUILDER_ASSETS ?? ''
const fails = 'Discovery fails, what it found before is kept'
/** limit until a frozen API server is noticed, and until one that is back is asked again */
const noticeTimeoutMs = 60_000

inOwnNetwork(
  t,
  {
    file: import.meta.filename,
    name: 'replicas in network namespaces, each source and fault',
    needs: missingAssets(assets, 'api'),
    timeoutMs: 3_600_000,
  },
  () => {
    t.test('rounds', async (t) => {
      const network = await VirtualNetwork.start()
      const controlPlane = new ControlPlane({ assets, parts: 'api' })
      t.teardown(() => controlPlane.stop())
      await controlPlane.start()
      const hosts: Host[] = []
      for (let i = 0; i < 4; i++) hosts.push(await network.add(`kas-${i}`))
      for (const round of await discoveryRounds(t, controlPlane, hosts)) {
        await t.test(`found by ${round.name}`, async (t) => {
          const cluster = await NetworkCluster.start(t, network)
          const [last, ...first] = hosts.toReversed() as [Host, ...Host[]]
          await round.list(first)
          for (const host of first.toReversed()) await cluster.add(host, await round.options(host.name))
          await cluster.agree()
          for (const fault of round.faults) {
            await t.test(fault.name, async (t) => {
              const losses = await meanwhile(t, cluster, round, fault)
              t.strictSame(losses, [])
            })
          }
          await t.test('a new one is found', async () => {
            await round.list(hosts)
            await cluster.add(last, await round.options(last.name))
            await cluster.agree()
          })
        })
      }
    })
  },
)

/** @returns names of lost replicas */
async function meanwhile(
  t: TornDown,
  cluster: NetworkCluster,
  round: Round,
  fault: SourceFault,
): Promise<readonly string[]> {
  await atRest(cluster)
  const failed = cluster.replicas.map((replica) => replica.lines(fails).length + (fault.isTold ? 1 : 0))
  const losses = await Losses.watch(t, cluster.replicas)
  fault.begin()
  try {
    await fault.met()
    for (const [i, replica] of cluster.replicas.entries()) {
      await replica.said(fails, { count: failed[i] ?? 0, timeoutMs: noticeTimeoutMs })
    }
    for (const { host } of cluster.replicas) await cluster.network.reset(host, 8156)
    await cluster.agree()
    await losses.stop()
    assert.deepEqual(
      cluster.replicas.map((replica) => replica.lines(fails).length),
      failed,
      'it is told once',
    )
    await restart(cluster, round)
  } finally {
    await losses.stop()
    await fault.end()
  }
  await atRest(cluster)
  return (await losses.stop()).losses
}

/** Resolves once all agree and each source answers. */
async function atRest(cluster: NetworkCluster): Promise<void> {
  await cluster.agree({ timeoutMs: noticeTimeoutMs })
  for (const replica of cluster.replicas) {
    await eventually(
      async () => {
        const failing = /^kas_discovery_sources_(stale|silent) [1-9]/m.exec(await replica.metrics())
        assert.ok(!failing, `${replica.name}: ${failing}`)
      },
      { timeoutMs: noticeTimeoutMs },
    )
  }
}

/**
 * Kills the second replica and starts it again. It may find no other replica, but the others find it by the addresses
 * that they knew before.
 */
async function restart(cluster: NetworkCluster, round: Round): Promise<NetworkReplica> {
  const killed = cluster.replicas[1] as NetworkReplica
  const [old] = (await membersOf(killed)).filter(({ name }) => name === killed.name)
  killed.signal('SIGKILL')
  await killed.exited
  const fresh = await cluster.add(killed.host, await round.options(killed.name), { inPlaceOf: killed })
  await fresh.said('Private API endpoint is up', { timeoutMs: noticeTimeoutMs }) // the gossip starts next
  for (const replica of cluster.replicas.filter((other) => other !== fresh)) {
    await eventually(async () => {
      const member = (await membersOf(replica)).find(({ name }) => name === fresh.name)
      assert.ok(member?.gossip && member.instance !== old?.instance, `${replica.name} does not know ${fresh.name}`)
    })
  }
  return fresh
}
