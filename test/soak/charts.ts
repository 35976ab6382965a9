import { mkdtemp, rm } from 'node:fs/promises'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import t, { type Test } from 'tap'
import { skip as withoutHelm } from '../support/charts/chart-words.ts'
import { eventually } from '../support/eventually.ts'
import type { NodeCluster } from '../support/nodes/node-cluster.ts'
import { onNodes } from '../support/nodes/on-nodes.ts'
import { container } from '../support/nodes/workloads.ts'
import { withoutOlderVersion } from '../support/older-version.ts'
import { ChartsGround } from './charts/charts-ground.ts'
import { deadNode } from './charts/dead-node.ts'
import { makeBoth } from './charts/images.ts'
import { planned } from './charts/planned.ts'
import { PodLeaves } from './charts/pod-leaves.ts'
import { agentkGraceMs, type ChartsOptions, graces, seconds, values, workplace } from './charts/stage.ts'
import { TunnelCount } from './charts/tunnel-count.ts'

/**
 * The charts with the images that are shipped, on three real nodes: installed, upgraded, rolled back, drained, with a
 * lost node.
 */

/** passed to the run on the nodes */
const imagesVariable = 'KAS_SOAK_IMAGES'
const nodes = 3
const timeoutMs = 1_140_000
/** time for helm: three pods leave one after the other, on a busy machine */
const helmSeconds = 240
/** limit of the time from the installation to the first answer. ms */
const installMs = 60_000
const name = 'charts on real nodes'

async function play(t: Test, cluster: NodeCluster): Promise<void> {
  const options: ChartsOptions = JSON.parse(process.env.KAS_SOAK_OPTIONS ?? '{}')
  const images = ['this', 'before'].map((version) => join(process.env[imagesVariable] ?? '', version))
  const ground = await ChartsGround.start(t, cluster, { images, helmSeconds })

  await t.test('from helm install to the first answer to kubectl', async (t) => {
    const began = performance.now()
    await ground.installBoth(values.before)
    const kubectl = await ground.kubectlThroughKas()
    await eventually(() => kubectl.ok(['get', 'pods', '--all-namespaces']))
    const took = performance.now() - began
    t.comment(`helm install to kubectl: ${seconds(took)}`)
    t.ok(took < installMs, seconds(took))
  })
  await makeWorkplace(ground)
  const leaves = PodLeaves.start(t, cluster, [
    { namespace: 'kas', listenMs: graces.listenMs, wholeMs: graces.listenMs + graces.shutdownMs },
    { namespace: 'agentk', wholeMs: agentkGraceMs },
  ])
  const tunnels = TunnelCount.start(t, cluster)
  await tunnels.allKnown(AbortSignal.timeout(installMs))
  await t.test('by plan', (t) => planned({ t, ground, options, leaves, tunnels }))
  await t.test('a node is lost', (t) => deadNode({ t, ground, options, leaves, tunnels }))
}

/** Creates namespaces in which ada has the rights of callers, and a pod with a shell. */
async function makeWorkplace({ cluster, kubectl }: ChartsGround): Promise<void> {
  const { namespace, pod, node } = workplace
  for (const one of [namespace, `${namespace}-0`, `${namespace}-1`]) {
    await kubectl.ok(['create', 'namespace', one])
    const binding = ['create', 'rolebinding', 'ada', '--clusterrole=edit', '--user=gitlab:user:ada']
    await kubectl.with({ namespace: one }).ok(binding)
  }
  const containers = [container({ script: 'sleep 86400 & wait' })]
  const spec = { nodeName: `node-${node}`, containers, terminationGracePeriodSeconds: 1 }
  const isReady = () => kubectl.with({ namespace }).ok(['wait', `pod/${pod}`, '--for=condition=Ready', '--timeout=20s'])
  await eventually(() => cluster.create({ apiVersion: 'v1', kind: 'Pod', metadata: { namespace, name: pod }, spec }))
  await isReady()
}

/** Makes the images for the run on the nodes, which cannot reach Debian's packages. */
async function prepare(): Promise<void> {
  const folder = await mkdtemp(join(tmpdir(), 'kas-soak-images-'))
  t.teardown(() => rm(folder, { recursive: true, force: true }))
  await makeBoth(folder)
  process.env[imagesVariable] = folder
}

const skip = withoutHelm || withoutOlderVersion
if (skip) t.test(name, { skip }, () => undefined)
else {
  if (process.env.KUBETEST_DIR === undefined && process.env.KUBETEST_NODES) await prepare()
  onNodes(name, { file: import.meta.url, nodes, timeoutMs }, play)
}
