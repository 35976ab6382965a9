import type { Test } from 'tap'
import type { KubernetesObject } from '../../dev/control-plane/api-client.ts'
import type { ShownSource } from '../../src/kas/modules/gitops/cli/state.ts'
import { verdictOf } from '../../src/kas/modules/views/cli/shown-view.ts'
import { eventually } from '../support/eventually.ts'
import { emptyRegistry, type NodeCluster } from '../support/nodes/node-cluster.ts'
import { NodesSources, namespacedMap, type SourceName } from '../support/nodes/nodes-sources.ts'
import { onNodes } from '../support/nodes/on-nodes.ts'
import { type RecordedBreakage, recordedBreakages, startPrivateRegistry } from '../support/nodes/recorded-breakages.ts'
import { deployment, neverReady, podSpec, server, serving } from '../support/nodes/workloads.ts'
import { patience } from '../support/slowness.ts'
import { LiveTree } from '../support/views/live-tree.ts'

/**
 * `kas gitops wait` and the health of sources, on a node with a kubelet and containers. KAS_NODES_BREAKAGES: 12 plays
 * all recorded breakages, of which three are usual.
 */

const breakages = Number(process.env.KAS_NODES_BREAKAGES ?? 3)
const vectors = process.env.KAS_VECTORS
/** Limit between the Pod's `ErrImagePull`, or `ImagePullBackOff`, and the verdict. ms */
const degradedMs = 3000
/** The same for an account that may not watch Pods. ms */
const listedMs = 12_000
/** Limit between the last Pod and the end of `kas gitops wait`. ms */
const healthyMs = 2000
const stepMs = 60_000
const timeoutMs = breakages > 3 ? 600_000 : 240_000

onNodes('sources on real nodes', { file: import.meta.url, nodes: 1, timeoutMs }, async (t, cluster) => {
  const sources = await NodesSources.start(t, cluster)
  const { ground } = sources
  await cluster.startEmptyRegistry(1, ground.processes)
  await sources.becomes('web', ({ phase }) => phase === 'SYNCED')

  await t.test('wait ends with 0 soon after the last Pod', async (t) => {
    const ready = untilPods(cluster, 'web', isReady, 2)
    const commit = await sources.push('web', web('web', serving({ readyAfter: 2 })))
    const waiting = endOf(sources.wait('web', '--commit', commit, '--timeout', '2m'))
    const readyAt = await ready
    const { code, stderr, at } = await waiting
    t.equal(code, 0, stderr)
    within(t, 'wait after the last Pod', at - readyAt, healthyMs)
  })

  await t.test('an image that never starts: degraded, and wait ends with 4 and names it', async (t) => {
    const pulled = untilPods(cluster, 'web', isWithoutImage, 1)
    const commit = await sources.push('web', withoutImage('web'))
    const waiting = sources.wait('web', '--commit', commit, '--timeout', '2m')
    const isDegraded = ({ health, wanted }: ShownSource) => wanted === commit && health?.degraded === 1
    const degraded = sources.becomes('web', isDegraded).then(() => performance.now())
    within(t, 'degraded after the Pod has no image', (await degraded) - (await pulled), degradedMs)
    const { code, stderr } = await waiting
    t.equal(code, 4, stderr)
    t.match(stderr, /Deployment web\/web: degraded: Pod web\/web-\S+: ImageNotFound: /)
  })

  await t.test('a commit that mends it: the verdict on the one before ends no wait', async (t) => {
    const commit = await sources.push('web', web('web', serving()))
    const { code, stderr } = await sources.wait('web', '--commit', commit, '--timeout', '2m')
    t.equal(code, 0, stderr)
  })

  await t.test('an account that may not watch Pods: the row names that, and the verdict comes', async (t) => {
    const pulled = untilPods(cluster, 'listing', isWithoutImage, 1)
    await sources.push('listing', withoutImage('listing'))
    const degraded = sources.becomes('listing', ({ health }) => health?.degraded === 1)
    const told = await Promise.all([degraded.then((one) => ({ ...one, at: performance.now() })), pulled])
    const [{ at, unhealthy, unlisted = [] }, pulledAt] = told
    within(t, 'degraded by lists', at - pulledAt, listedMs)
    t.match(unhealthy, [{ culprit: { kind: 'Pod' }, reason: 'ImageNotFound' }])
    t.match(unlisted.join(), /^Pod: read every 10 s: agentk may not watch them \(403\)$/)
  })

  await t.test('each exit code', (t) => exitCodes(t, sources))

  await t.test('agentk is killed during a rollout: wait ends as before', async (t) => {
    const begun = untilPods(cluster, 'web', hasVersion('killed'), 1)
    const rolledOut = web('web', serving({ readyAfter: 5 }), { version: 'killed' })
    const commit = await sources.push('web', rolledOut)
    const waiting = sources.wait('web', '--commit', commit, '--timeout', '3m')
    await begun
    await ground.killAgentk('agentk-0')
    await ground.startAgentk('agentk-1')
    const { code, stderr } = await waiting
    t.equal(code, 0, stderr)
    const { items } = await cluster.admin.get('/api/v1/namespaces/web/pods')
    t.equal((items as KubernetesObject[]).filter(hasVersion('killed')).filter(isReady).length, 2, 'not too early')
  })

  const skip = vectors === undefined && 'needs KAS_VECTORS'
  await t.test('breakages have the cause of kas health, with views and without', { skip }, async (t) => {
    const all = await recordedBreakages(breakages, vectors ?? '')
    await startPrivateRegistry(ground.processes)
    await sources.push('broken', ...all.map(({ manifest }) => manifest))
    await t.test('without views', async (t) => {
      for (const one of all) t.match(await causeOf(sources, one), expectedOf(one), one.name)
    })
    await ground.turnViewsOn()
    const tree = new LiveTree({ endpoint: ground.endpoint, query: { view: 'tree', limit: 500 } })
    t.teardown(() => tree.stop())
    await tree.until('the view is live', () => tree.isLive, stepMs)
    await t.test('with views', async (t) => {
      for (const one of all) {
        await eventually(async () => same(treeCause(tree, one), await causeNow(sources, one)), { timeoutMs: stepMs })
        t.match(await causeOf(sources, one), expectedOf(one), one.name)
      }
    })
    await t.test('a rule of views.yaml decides for sources, too', async (t) => {
      await ground.turnViewsOn({ health: [ofMaps] })
      const { unhealthy } = await sources.becomes('codes', ({ health }) => health?.degraded === 1)
      t.match(unhealthy?.[0], { key: { kind: 'ConfigMap', name: 'map' }, word: 'degraded', text: 'by a rule' })
    })
  })
})

/** Prints a time, and compares it with its limit on this machine. */
function within(t: Test, about: string, ms: number, limitMs: number): void {
  t.comment(`${about}: ${Math.round(ms)} ms, limit ${limitMs} ms`)
  t.ok(ms <= patience(limitMs), `${about}: ${Math.round(ms)} ms`)
}

const endOf = async <T extends object>(running: Promise<T>) => ({ ...(await running), at: performance.now() })

const web = (namespace: string, script: string, labels = {}): KubernetesObject => {
  const made = deployment({ namespace, pod: podSpec({ containers: [server({ script })] }) })
  return {
    ...made,
    spec: { ...made.spec, template: { ...made.spec.template, metadata: { labels: { app: 'web', ...labels } } } },
  }
}
const withoutImage = (namespace: string) => {
  const image = `${emptyRegistry}/shop/web:2`
  return deployment({ namespace, pod: podSpec({ containers: [server({ more: { image } })] }) })
}

const isReady = ({ status }: KubernetesObject) =>
  (status.conditions ?? []).some((one: KubernetesObject) => one.type === 'Ready' && one.status === 'True')
/** the kubelet's words, the second one some seconds after the first */
const noImage: ReadonlySet<unknown> = new Set(['ErrImagePull', 'ImagePullBackOff'])
const isWithoutImage = ({ status }: KubernetesObject) =>
  (status.containerStatuses ?? []).some(({ state }: KubernetesObject) => noImage.has(state.waiting?.reason))
const hasVersion = (version: string) => (pod: KubernetesObject) => pod.metadata.labels?.version === version

/** Returns the time at which so many Pods were as required, by `performance.now`. */
async function untilPods(
  cluster: NodeCluster,
  namespace: string,
  is: (pod: KubernetesObject) => boolean,
  count: number,
) {
  const names = new Set<string>()
  const isLast = (pod: KubernetesObject) => {
    if (is(pod)) names.add(pod.metadata.name)
    return names.size >= count
  }
  await cluster.admin.until(`/api/v1/namespaces/${namespace}/pods`, isLast, AbortSignal.timeout(patience(2 * stepMs)))
  return performance.now()
}

const ofMaps = {
  kind: 'ConfigMap',
  rules: [{ when: 'object.metadata.name == "map"', verdict: 'Degraded', text: '"by a rule"' }],
}
const confirmed = { metadata: { name: 'leaves', annotations: { 'agent.gitlab.com/prune': 'confirm' } } }

/** Plays the exit codes of `kas gitops wait` that the other tests leave. */
async function exitCodes(t: Test, sources: NodesSources): Promise<void> {
  const name: SourceName = 'codes'
  const leaves = { ...namespacedMap('leaves'), ...confirmed }
  const first = await sources.push(name, namespacedMap('map'), leaves)
  t.match(await sources.wait(name, '--commit', first, '--timeout', '1m'), { code: 0 })
  const without = await sources.push(name, namespacedMap('map'))
  const asking = await sources.wait(name, '--commit', without, '--timeout', '1m')
  t.match(asking, { code: 6, stderr: /waits for approval/ }, asking.stdout)
  const broken = await sources.pushText(name, 'kind: [')
  t.match(await sources.wait(name, '--commit', broken, '--timeout', '1m'), { code: 1, stderr: /REFUSED: .*all\.yaml/ })
  const slow = deployment({ namespace: name, pod: podSpec({ containers: [server({ script: neverReady })] }) })
  const later = await sources.push(name, namespacedMap('map'), leaves, slow)
  t.match(await sources.wait(name, '--commit', later, '--timeout', '8s'), { code: 3, stderr: /Deployment codes\/web/ })
  const never = '0'.repeat(40)
  t.match(await sources.wait(name, '--commit', never, '--timeout', '8s'), { code: 5, stderr: /is in no source/ })
  t.match(await sources.wait(name, '--timeout', 'soon'), { code: 2, stderr: /timeout/ })
}

interface ToldCause {
  readonly word: string
  readonly reason: string
  readonly culprit: string
}

const expectedOf = ({ reason, culprit }: RecordedBreakage) => ({
  reason,
  culprit: new RegExp(`^Pod ${culprit}`),
})

/** Returns the cause that the source reports of a breakage now. */
async function causeNow(sources: NodesSources, { manifest }: RecordedBreakage): Promise<ToldCause | undefined> {
  const state = await sources.state('broken')
  const one = state?.unhealthy?.find(
    ({ key }) => key && key.kind === manifest.kind && key.name === manifest.metadata.name,
  )
  return one && { word: one.word, reason: one.reason, culprit: `${one.culprit?.kind} ${one.culprit?.name}` }
}

/** Waits until the source reports the expected cause. */
async function causeOf(sources: NodesSources, breakage: RecordedBreakage): Promise<ToldCause> {
  const { reason } = expectedOf(breakage)
  const check = async () => {
    const told = await causeNow(sources, breakage)
    if (told?.reason === reason) return told // the verdict comes with time
    throw new Error(`${breakage.name}: ${JSON.stringify(told)}`)
  }
  return await eventually(check, { timeoutMs: 3 * stepMs })
}

/** Returns the cause that `kas health` has of a breakage now. */
function treeCause(tree: LiveTree, { manifest }: RecordedBreakage): ToldCause | undefined {
  const row = tree.roots.find(({ k, n }) => k.split('/').at(-1) === manifest.kind && n === manifest.metadata.name)
  const { z } = row ?? {}
  return row && z && { word: verdictOf(row).toLowerCase(), reason: z.reason, culprit: `${z.kind} ${z.name}` }
}

const same = (one: ToldCause | undefined, other: ToldCause | undefined) =>
  one !== undefined && JSON.stringify(one) === JSON.stringify(other)
