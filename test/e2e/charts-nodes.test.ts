import type { KubernetesObject } from '../../dev/control-plane/api-client.ts'
import { eventually } from '../support/eventually.ts'
import { chartsOnNodes } from './images/charts-on-nodes.ts'

/** The charts with the images that are shipped, on nodes with a kubelet: from `helm install` to kubectl, and on. */

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
      await ground.install('kas', 'customConfig.observability.logging.level=debug')
      await ground.install('agentk', 'extraEnv[0].name=LOG_LEVEL', 'extraEnv[0].value=debug')
    })
    const { items } = await ground.cluster.admin.get('/api/v1/namespaces/agentk/pods')
    const staying = (items as KubernetesObject[]).filter(({ metadata }) => metadata.deletionTimestamp === undefined)
    const nodes = staying.map(({ spec }) => spec.nodeName)
    t.strictSame([nodes.length, new Set(nodes).size], [2, 2], 'the new pods of agentk are on two nodes')
  })
})
