import { mkdtemp, rm } from 'node:fs/promises'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import t from 'tap'
import { makeImages } from '../../dev/images/images.ts'
import { skip as withoutHelm } from '../support/charts/chart-words.ts'
import { eventually } from '../support/eventually.ts'
import { ChartsGround } from '../support/nodes/charts-ground.ts'
import { onNodes } from '../support/nodes/on-nodes.ts'
import { architecture } from './images/unpacked-image.ts'
import { lacking } from './images/unpacked-runc.ts'

/** The charts with the images that are shipped, on nodes with a kubelet: from `helm install` to kubectl, and on. */

const nodes = 3
/** from `helm install` to what kubectl prints first. ms */
const installedWithinMs = 60_000
/** handed on to the run on the nodes, where there is no way to Debian's packages */
const imagesVariable = 'KAS_CHARTS_IMAGES'

const isInside = process.env.KUBETEST_DIR !== undefined
const skip = isInside ? false : withoutHelm || (process.env.KUBETEST_NODES ? await lacking() : 'needs KUBETEST_NODES')

if (skip) {
  t.test('charts on real nodes', { skip }, () => undefined)
} else {
  if (!isInside) {
    const folder = await mkdtemp(join(tmpdir(), 'kas-charts-images-'))
    t.teardown(() => rm(folder, { recursive: true, force: true }))
    await makeImages({ to: folder, names: ['kas', 'agentk'], architectures: [architecture] })
    process.env[imagesVariable] = folder
  }
  onNodes('charts on real nodes', { file: import.meta.url, nodes, timeoutMs: 200_000 }, async (t, cluster) => {
    const ground = await ChartsGround.start(t, cluster, process.env[imagesVariable] ?? '')

    await t.test('from helm install to the first answer to kubectl', async (t) => {
      const began = performance.now()
      await Promise.all([ground.install('kas'), ground.install('agentk')])
      const bind = ['create', 'clusterrolebinding', 'ada', '--clusterrole=view', '--user=gitlab:user:ada']
      await ground.kubectl.ok(bind)
      const kubectl = await ground.kubectlThroughKas()
      const pods = await eventually(() => kubectl.ok(['get', 'pods', '--all-namespaces', '--output=name']))
      const tookMs = performance.now() - began
      t.comment(`${Math.round(tookMs)} ms`)
      t.ok(tookMs < installedWithinMs, `${tookMs} ms`)
      t.strictSame(pods.match(/^pod\/(?:kas-\d|agentk-)/gm)?.length, 5)
      t.match(await ground.kubectl.with({ namespace: 'kas' }).ok(['exec', 'kas-0', '--', 'kas', 'status']), /kas-2/)
    })

    await t.test('new pods of kas and of agentk, one after the other, fail no call', async (t) => {
      const calls = await ground.callsThroughKas('/api/v1/namespaces')
      calls.start()
      t.teardown(() => calls.stop())
      await calls.more(20)
      await ground.install('kas', 'customConfig.observability.logging.level=debug')
      await ground.install('agentk', 'extraEnv[0].name=LOG_LEVEL', 'extraEnv[0].value=debug')
      await calls.more(20)
      const results = await calls.stop()
      t.comment(`${results.length} calls`)
      t.ok(results.length > 200, `${results.length} calls`)
      t.strictSame(
        calls.failed.map(({ status, text, startedMs }) => [Math.round(startedMs), status, text]),
        [],
      )
    })
  })
}
