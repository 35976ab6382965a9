import type { KubernetesObject } from '../../dev/control-plane/api-client.ts'
import { eventually } from '../support/eventually.ts'
import { chartsOnNodes } from './images/charts-on-nodes.ts'

/**
 * The charts with the images that are shipped, on nodes with a kubelet: from `helm install` to kubectl, and on, while nodes
 * and versions come and go under what is installed.
 */

/** of pods that leave: 80 s each of kas, which the chart gives it with the graces of the ground, and a way to go. s */
const drainSeconds = 120

await chartsOnNodes(import.meta.url, async (t, ground) => {
  await t.test('from helm install to the first answer to kubectl', async (t) => {
    const began = performance.now()
    await ground.installBoth()
    const kubectl = await ground.kubectlThroughKas()
    const pods = await eventually(() => kubectl.ok(['get', 'pods', '--all-namespaces', '--output=name']))
    const tookMs = performance.now() - began
    t.comment(`${Math.round(tookMs)} ms`)
    t.strictSame(pods.match(/^pod\/(?:kas-\d|agentk-)/gm)?.length, 5)
    t.match(await ground.kubectl.with({ namespace: 'kas' }).ok(['exec', 'kas-0', '--', 'kas', 'status']), /kas-2/)
  })

  await t.test('new pods of kas and of agentk, one after the other, fail no call', async (t) => {
    await ground.underCalls(t, async () => {
      await ground.install('kas', 'customConfig.observability.logging.level=warn')
      await ground.install('agentk', 'extraEnv[0].name=LOG_LEVEL', 'extraEnv[0].value=warn')
    })
    const { items } = await ground.cluster.admin.get('/api/v1/namespaces/agentk/pods')
    const staying = (items as KubernetesObject[]).filter(({ metadata }) => metadata.deletionTimestamp === undefined)
    const nodes = staying.map(({ spec }) => spec.nodeName)
    t.strictSame([nodes.length, new Set(nodes).size], [2, 2], 'the new pods of agentk are on two nodes')
  })
  await t.test('a node that is drained, and the way back to the version before, fail no call', async (t) => {
    await ground.underCalls(t, async () => {
      const { spec } = await ground.cluster.admin.get('/api/v1/namespaces/kas/pods/kas-0')
      const patience = `--timeout=${drainSeconds}s`
      const drain = ['drain', spec.nodeName, '--ignore-daemonsets', '--delete-emptydir-data', patience]
      const drained = await ground.kubectl.start(drain)
      const { code, stdout } = await drained.ends({ timeoutMs: (drainSeconds + 10) * 1000 })
      t.equal(code, 0)
      t.match(stdout.toString(), /pod\/kas-0 evicted/)
      await ground.kubectl.ok(['uncordon', spec.nodeName])
      await ground.rollback('agentk', 1)
    })
  })
})
