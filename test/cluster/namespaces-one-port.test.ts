import assert from 'node:assert/strict'
import { writeFile } from 'node:fs/promises'
import { join } from 'node:path'
import t from 'tap'
import { kubeconfigText } from '../../dev/control-plane/kubeconfig.ts'
import { eventually } from '../support/eventually.ts'
import { Kubectl } from '../support/kubectl.ts'
import { inOwnNetwork } from '../support/network/own-network.ts'
import { type Host, VirtualNetwork } from '../support/network/virtual-network.ts'
import { RepeatedCalls } from '../support/repeated-calls.ts'
import { bearerOf } from '../support/stack-directory.ts'
import { ConfinedAgent, seenBy, unknownKey } from './confined-agent.ts'

/**
 * An agent that can reach one port of one replica and nothing else, not even DNS. Its kas names other replicas as its
 * home: one refuses connections, one never answers.
 */

const assets = process.env.KUBEBUILDER_ASSETS ?? ''
const needs = assets === '' ? ['kubectl of KUBEBUILDER_ASSETS'] : []
const pods = ['pod-a', 'pod-b']
const file = import.meta.filename

inOwnNetwork(t, { file, name: 'an agent that reaches one port', needs, timeoutMs: 120_000 }, () => {
  t.test('three replicas, two pods of an agent', async (t) => {
    const network = await VirtualNetwork.start()
    const hosts = [await network.add('kas-0'), await network.add('kas-1'), await network.add('kas-2')]
    const [open, silent, closed] = hosts as [Host, Host, Host]
    const inside = await network.add('inside')
    await network.confine(inside, open, 8150, [silent])
    const confined = await ConfinedAgent.start(t, hosts)
    await confined.startCluster(inside)
    const ports = [8150, 8151, 8153, 8154, 8155, 8156]
    const targets = hosts.flatMap(({ ipv4 }) => ports.map((port) => `${ipv4}:${port}`))
    t.same(await confined.reached(inside, targets), [`${open.ipv4}:8150`], 'nothing but one port')

    const allowed = [silent.ipv4, closed.ipv4]
    const addresses = [`grpc://${open.ipv4}:8150`, `ws://${open.ipv4}:8150/-/kubernetes-agent/`]
    const agentks = await Promise.all(
      pods.map((pod, i) => confined.startPod(inside, pod, { address: addresses[i] as string, allowed })),
    )
    const entry = confined.replicas[2] as (typeof confined.replicas)[number]
    const ofAgent = await eventually(
      async () => {
        const agent = await seenBy(entry)
        assert.equal(agent?.pods, pods.length, 'both are registered')
        return agent
      },
      { timeoutMs: 30_000 },
    )
    t.same(
      ofAgent?.holders.map(({ name }) => name),
      ['kas-0'],
      'both are at the replica that they reach',
    )
    for (const agentk of agentks) await agentk.says(new RegExp(`"warning":"${unknownKey}`))

    const url = `https://${entry.host.ipv4}:8154`
    const authorization = `Bearer ${bearerOf('agent')}`
    const calls = new RepeatedCalls({ url: `${url}/api/v1/namespaces/demo/configmaps`, ca: confined.ca, authorization })
    calls.start(t)

    await t.test('kubectl through a replica that it does not reach', async (t) => {
      const { processes } = confined
      const kubeconfig = join(processes.folder, 'user.kubeconfig')
      const user = { token: bearerOf('agent') }
      await writeFile(kubeconfig, kubeconfigText({ server: url, authority: confined.ca, user }), { mode: 0o600 })
      const kubectl = new Kubectl({ processes, assets }, { kubeconfig, namespace: 'demo' })
      t.match(await kubectl.ok(['get', 'pods', '-o', 'name']), 'pod/echo', 'get')
      const { code, stdout } = await kubectl.run(['exec', '-i', 'echo', '--', 'cat'], { stdin: 'there and back\n' })
      t.match({ code, stdout: String(stdout) }, { code: 0, stdout: 'there and back\n' }, 'exec')
      const watch = await kubectl.start(['get', 'configmaps', '--watch', '--no-headers'])
      await watch.says(/^read-me /m)
      await kubectl.ok(['create', 'configmap', 'late'])
      await watch.says(/^late /m)
      watch.signal('SIGKILL')
    })

    await t.test('what kas tells them does no harm', async (t) => {
      // the pods together have both others as home or standby; they wait 10 s for the silent one
      for (const { name } of [silent, closed]) {
        await eventually(() => assert.ok(agentks.some(({ stderr }) => missed(stderr, name))), { timeoutMs: 40_000 })
      }
      const { failures, summary } = await calls.stop()
      t.same(failures, [], `no call fails meanwhile: ${summary}`)
      t.same(
        (await seenBy(entry))?.holders.map(({ name }) => name),
        ['kas-0'],
      )
    })
  })
})

/** Returns true if agentk has failed to reach the replica. */
function missed(log: string, replica: string): boolean {
  return log.split('\n').some((line) => line.includes('was not reached') && line.includes(`"replica":"${replica}"`))
}
