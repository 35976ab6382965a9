import assert from 'node:assert/strict'
import t from 'tap'
import { missingAssets } from '../../dev/control-plane/assets.ts'
import { ControlPlane } from '../../dev/control-plane/control-plane.ts'
import { dnsRound, kubernetesRound, listRound, type Round } from '../support/network/discovery-rounds.ts'
import { Losses } from '../support/network/losses.ts'
import { NetworkCluster } from '../support/network/network-cluster.ts'
import type { NetworkReplica } from '../support/network/network-replica.ts'
import { inOwnNetwork } from '../support/network/own-network.ts'
import { type Host, VirtualNetwork } from '../support/network/virtual-network.ts'

/**
 * Replicas with addresses of their own, each with another source of discovery. Each source fails, and no replica is
 * lost. `npm run soak -- namespaces` plays each source and each fault at all replicas at once.
 */

const assets = process.env.KUBEBUILDER_ASSETS ?? ''
const fails = 'Discovery fails, what it found before is kept'
const answers = 'Discovery answers'
const count = 5

inOwnNetwork(
  t,
  {
    file: import.meta.filename,
    name: 'replicas in network namespaces: discovery',
    needs: missingAssets(assets, 'api'),
    timeoutMs: 150_000,
  },
  () => {
    t.test('five replicas, four sources', async (t) => {
      const network = await VirtualNetwork.start()
      const controlPlane = new ControlPlane({ assets, parts: 'api' })
      t.teardown(() => controlPlane.stop())
      await controlPlane.start()
      const hosts: Host[] = []
      for (let i = 0; i < count; i++) hosts.push(await network.add(`kas-${i}`))
      const rounds = [
        await kubernetesRound(t, controlPlane, 'EndpointSlices'),
        await kubernetesRound(t, controlPlane, 'EndpointSlices'),
        await kubernetesRound(t, controlPlane, 'Endpoints'),
        await dnsRound(t),
        listRound(hosts),
      ] as const
      const cluster = await NetworkCluster.start(t, network)
      for (const [i, host] of hosts.entries()) {
        const round = rounds[i] as Round
        await round.list(hosts)
        const clockMs = [60_000, -60_000][i]
        await cluster.add(host, { ...(await round.options(host.name)), ...(clockMs === undefined ? {} : { clockMs }) })
      }
      const [ahead, behind, byEndpoints, byDns] = cluster.replicas as Four
      const [first, second, third, fourth] = rounds

      await t.test('each finds all others, two of them with clocks that are 60 s off', async (t) => {
        await cluster.agree()
        for (const replica of cluster.replicas) t.match(await sources(replica), { stale: 0, silent: 0 }, replica.name)
        t.equal(byEndpoints.lines('Discovery uses Endpoints, since EndpointSlices are not allowed').length, 1)
        const times = [ahead, behind].map((replica) => Date.parse(String(replica.lines().at(-1)?.time)))
        t.ok((times[0] ?? 0) - (times[1] ?? 0) > 60_000, 'clocks are wrong indeed')
        const errors = cluster.replicas.flatMap((replica) => replica.lines().filter(({ level }) => level === 'error'))
        t.strictSame(errors, [])
      })

      await t.test('no replica is lost while the API server and DNS fail', async (t) => {
        const losses = await Losses.watch(t, cluster.replicas)
        const ends = [
          suffers(first, ['answering 403', 'answering 500', 'away']),
          suffers(second, ['answering 410', 'answering 429']),
          suffers(third, ['frozen, after a cut']),
          suffers(fourth, ['servfail']),
        ]
        for (const replica of [ahead, behind]) await replica.said(fails)
        await restartGossip(cluster)
        await Promise.all(ends)
        for (const replica of [byEndpoints, byDns]) await replica.said(fails, { timeoutMs: 20_000 })
        await restartGossip(cluster)
        for (const [replica, known] of [
          [ahead, count],
          [byEndpoints, count],
          [byDns, 2 * count],
        ] as const) {
          t.match(await sources(replica), { stale: 1 }, replica.name)
          t.match(replica.lines(fails), [{ known }], 'told once, with all that is kept')
        }
        for (const end of await Promise.all(ends)) await end()
        await byEndpoints.said(answers, { timeoutMs: 20_000 })
        const { losses: lost, looks } = await losses.stop()
        t.strictSame(lost, [])
        t.ok(looks > 100, `looked ${looks} times`)
      })
    })
  },
)

type Four = [NetworkReplica, NetworkReplica, NetworkReplica, NetworkReplica]

/** Makes one fault after the other, each until its sign is seen; the last one goes on. @returns ends it */
async function suffers(round: Round, names: readonly string[]): Promise<() => void | Promise<void>> {
  let end: () => void | Promise<void> = () => undefined
  for (const name of names) {
    const fault = round.faults.find((one) => one.name === name)
    if (!fault) throw new Error(`${round.name} has no fault ${name}`)
    fault.begin()
    await fault.met()
    end = () => fault.end()
  }
  return end
}

/** Resets the gossip, so that each replica must find the others again by the addresses that it knows. */
async function restartGossip(cluster: NetworkCluster): Promise<void> {
  let reset = 0
  for (const { host } of cluster.replicas) reset += await cluster.network.reset(host, 8156)
  assert.ok(reset >= count, `${reset} connections of the gossip were reset`)
  await cluster.agree()
}

/** From the replica's metrics: how many sources fail, and how many have never answered. */
async function sources(replica: NetworkReplica) {
  const text = await replica.metrics()
  const value = (name: string) => Number(new RegExp(`^kas_discovery_sources_${name} (\\d+)$`, 'm').exec(text)?.[1])
  return { stale: value('stale'), silent: value('silent') }
}
