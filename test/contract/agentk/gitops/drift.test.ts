import t, { type Test } from 'tap'
import { systemClock } from '../../../../src/lib/clock.ts'
import { Phase, type SourceState } from '../../../../src/proto/gen/gitops_states_pb.ts'
import { eventually } from '../../../support/eventually.ts'
import { ProjectKas, startGitops } from './gitops-side.ts'
import { Ground, keyOf, skip } from './ground.ts'

/** Tests drift with a kas and a real API server: what is told, what is set back, and what is left. */

const web = (image: string) => `
apiVersion: apps/v1
kind: Deployment
metadata: { name: web, labels: { team: shop } }
spec:
  replicas: 2
  selector: { matchLabels: { app: web } }
  template:
    metadata: { labels: { app: web } }
    spec:
      containers:
        - { name: web, image: "${image}", ports: [{ containerPort: 80 }, { containerPort: 81 }] }
`
const map = (name: string, value: string) => `
apiVersion: v1
kind: ConfigMap
metadata: { name: ${name} }
data: { value: "${value}" }
`
const key = keyOf('Deployment', 'web', 'shop', 'apps')
const container = (image: string) => ({ spec: { template: { spec: { containers: [{ name: 'web', image }] } } } })

t.test('drift', { skip, timeout: 300_000 }, async (t) => {
  const ground = await Ground.start(t)
  for (const name of ['shop', 'gitops']) await ground.create(keyOf('Namespace', name, ''), { metadata: { name } })
  const image = async () => (await ground.get(key))?.spec.template.spec.containers[0].image
  const source = { id: 'platform/shop', default_namespace: 'shop', prune_propagation_policy: 'background' } as const
  const patch = async (body: object, manager: string) => {
    const path = `${ground.path(key)}?fieldManager=${manager}`
    const options = { contentType: 'application/strategic-merge-patch+json' }
    const answer = await ground.client.json('PATCH', path, body, undefined, options)
    if (answer.status !== 200) throw new Error(JSON.stringify(answer.body))
  }
  const began = async (
    t: Test,
    projectId: bigint,
    drift: object,
    { client = ground.client, serverClock = systemClock } = {},
  ) => {
    const project = new ProjectKas(projectId)
    const block = { manifest_projects: [{ ...source, drift }] }
    const side = await startGitops(t, ground, project, block, client, serverClock)
    const state = () => project.states.findLast(({ source }) => source === `42-${projectId}`) // others have left
    project.push({ 'web.yaml': web('nginx:1') })
    /** Waits for a state, and names the one that stayed in its place. */
    const becomes = (is: (state: SourceState | undefined) => boolean | undefined) =>
      eventually(() => is(state()) ?? false).catch((cause) => {
        const shown = JSON.stringify(state(), (_, one) => (typeof one === 'bigint' ? String(one) : one))
        throw new Error(`${shown} ${side.lines.join(' ')}`, { cause })
      })
    const becomesSynced = () => becomes((now) => now?.phase === Phase.SYNCED && now.commit === project.commit)
    await becomesSynced()
    return { project, state, becomes, becomesSynced, ...side }
  }
  const ended = async (stop: () => Promise<void>) => {
    await stop()
    await ground.client.json('DELETE', ground.path(key))
    await eventually(async () => (await ground.get(key)) === undefined)
  }

  await t.test('a change by hand is told with path and author, and set back after its time', async (t) => {
    const { state, becomes, stop } = await began(t, 101n, { after: '3s' })
    await patch(container('nginx:2'), 'kubectl-edit')
    await becomes((now) => now?.drifted.length === 1)
    t.match(state(), {
      phase: Phase.SYNCED,
      driftMode: 'correct',
      counts: { drifted: 1 },
      drifted: [
        {
          key: { kind: 'Deployment', namespace: 'shop', name: 'web' },
          kind: 'drifted',
          path: ['.spec.template.spec.containers[name="web"].image'],
          manager: 'kubectl-edit',
          operation: 'Update',
          file: 'web.yaml',
        },
      ],
    })
    const { correctAtMs, changedAtMs } = state()?.drifted[0] ?? {}
    t.equal(Number(correctAtMs) - Number(changedAtMs), 3000)
    t.equal(await image(), 'nginx:2', 'it is told before it is set back')
    await eventually(async () => (await image()) === 'nginx:1')
    await becomes((now) => now?.drifted.length === 0 && now.counts?.drifted === 0)
    await ended(stop)
  })

  await t.test('report tells, and writes nothing until the manifest changes', async (t) => {
    const { project, state, becomes, becomesSynced, stop } = await began(t, 102n, { mode: 'report', after: '0s' })
    await patch(container('nginx:2'), 'kubectl-edit')
    await becomes((now) => now?.drifted.length === 1)
    t.match(state()?.drifted[0], { left: 'mode', correctAtMs: 0n })
    project.push({ 'web.yaml': web('nginx:1'), 'other.yaml': map('other', '1') })
    await becomesSynced()
    t.equal(await image(), 'nginx:2', 'a commit that does not touch it')
    t.match(state(), { drifted: [{ left: 'mode' }], counts: { drifted: 1 } })
    project.push({ 'web.yaml': web('nginx:3'), 'other.yaml': map('other', '1') })
    await eventually(async () => (await image()) === 'nginx:3')
    await becomes((now) => now?.drifted.length === 0)
    await ended(stop)
  })

  await t.test('what others may do is no drift', async (t) => {
    const { becomes, stop } = await began(t, 103n, { after: '0s' })
    const version = async () => (await ground.get(key)).metadata.resourceVersion
    await patch({ metadata: { labels: { other: 'label' }, annotations: { note: 'x' } } }, 'kubectl-label')
    await patch(
      {
        spec: {
          template: { metadata: { annotations: { 'kubectl.kubernetes.io/restartedAt': '2026-06-01T00:00:00Z' } } },
        },
      },
      'kubectl-rollout',
    )
    await ground.merge(key, { status: { observedGeneration: 2 } }, 'kube-controller-manager', 'status')
    const before = await version()
    await patch(container('nginx:2'), 'kubectl-edit') // drift that comes later shows that the earlier changes were seen
    await eventually(async () => (await image()) === 'nginx:1')
    const { metadata, spec } = await ground.get(key)
    t.match(metadata.labels, { other: 'label', team: 'shop' })
    t.match(spec.template.metadata.annotations, { 'kubectl.kubernetes.io/restartedAt': '2026-06-01T00:00:00Z' })
    t.not(metadata.resourceVersion, before)
    await becomes((now) => now?.drifted.length === 0)
    await ended(stop)
  })

  await t.test('a deleted object comes back at once in the first two minutes of a term, in any mode', async (t) => {
    const { becomes, stop } = await began(t, 104n, { mode: 'report' })
    const { uid } = (await ground.get(key)).metadata
    await ground.client.json('DELETE', ground.path(key))
    await eventually(async () => (await ground.get(key))?.metadata.uid !== uid && (await image()) === 'nginx:1')
    await becomes((now) => now?.drifted.length === 0)
    await ended(stop)
  })

  await t.test('items in another order are drift, by nobody that is known', async (t) => {
    const { state, becomes, stop } = await began(t, 105n, { after: '2s' })
    const path = ground.path(key)
    const patchPorts = [
      {
        op: 'replace',
        path: '/spec/template/spec/containers/0/ports',
        value: [81, 80].map((port) => ({ containerPort: port, protocol: 'TCP' })),
      },
    ]
    const options = { contentType: 'application/json-patch+json' }
    t.equal((await ground.client.json('PATCH', path, patchPorts, undefined, options)).status, 200)
    await becomes((now) => now?.drifted.length === 1)
    t.match(state()?.drifted[0], { manager: '', kind: 'drifted' })
    const ports = async () =>
      (await ground.get(key)).spec.template.spec.containers[0].ports.map(
        (one: { containerPort: number }) => one.containerPort,
      )
    await eventually(async () => (await ports()).join() === '80,81')
    await ended(stop)
  })

  await t.test('added fields go where the configuration says so; the label of the same tool stays', async (t) => {
    const { becomes, stop } = await began(t, 109n, { after: '0s', added_by: ['kubectl*'] })
    const labels = { note: 'mine' }
    const spec = { template: { spec: { nodeSelector: { disk: 'ssd' }, containers: [{ name: 'web', tty: true }] } } }
    await patch({ metadata: { labels }, spec }, 'kubectl-edit')
    await eventually(async () => (await ground.get(key)).spec.template.spec.nodeSelector === undefined)
    const live = await ground.get(key)
    t.match(live.metadata.labels, { note: 'mine', team: 'shop' })
    t.equal(live.spec.template.spec.containers[0].tty, undefined)
    await becomes((now) => now?.drifted.length === 0 && now.counts?.drifted === 0)
    await ended(stop)
  })

  await t.test('added fields stay, and are named, where the configuration does not name who adds', async (t) => {
    const { becomes, stop } = await began(t, 110n, { after: '0s' })
    await patch({ spec: { template: { spec: { nodeSelector: { disk: 'ssd' } } } } }, 'kubectl-edit')
    await becomes((now) => now?.drifted[0]?.left === 'added')
    t.match((await ground.get(key)).spec.template.spec.nodeSelector, { disk: 'ssd' })
    await ended(stop)
  })

  await t.test('a value from Git that a rule leaves to another manager is named in the row', async (t) => {
    const ignore = [{ kinds: ['Deployment'], paths: ['.spec.replicas'] }]
    const { project, state, becomesSynced, stop } = await began(t, 111n, { after: '0s', ignore })
    t.strictSame(state()?.leftToOthers, [])
    await patch({ spec: { replicas: 5 } }, 'scaler')
    project.push({ 'web.yaml': web('nginx:1').replace('replicas: 2', 'replicas: 3') })
    await becomesSynced()
    t.equal((await ground.get(key)).spec.replicas, 5)
    t.match(state()?.leftToOthers, [
      { key: { name: 'web' }, path: '.spec.replicas', manager: 'scaler', rule: /replicas/ },
    ])
    t.equal(state()?.drifted.length, 0)
    await ended(stop)
  })

  await t.test('the time until a correction passes by the clock of the API server', async (t) => {
    const serverClock = { ...systemClock, now: () => Date.now() + 3600_000 }
    const { stop } = await began(t, 112n, { after: '1800s' }, { serverClock })
    await patch(container('nginx:2'), 'kubectl-edit')
    await eventually(async () => (await image()) === 'nginx:1')
    await ended(stop)
  })

  await t.test('an autoscaler that scales causes no dry run and no write', async (t) => {
    const sent: string[] = []
    const counted: typeof ground.client.json = (...args) => {
      if (args[1].includes('/deployments/web')) sent.push(`${args[0]} ${args[1]}`)
      return ground.client.json(...args)
    }
    const client = new Proxy(ground.client, {
      get: (of, name) => (name === 'json' ? counted : Reflect.get(of, name).bind(of)),
    })
    const hpa = keyOf('HorizontalPodAutoscaler', 'web', 'shop', 'autoscaling')
    await ground.create(hpa, {
      metadata: { name: 'web' },
      spec: { maxReplicas: 9, scaleTargetRef: { apiVersion: 'apps/v1', kind: 'Deployment', name: 'web' } },
    })
    const { project, state, becomes, becomesSynced, stop } = await began(t, 108n, {}, { client })
    project.push({ 'web.yaml': web('nginx:1'), 'marker.yaml': web('nginx:1').replaceAll('web', 'marker') })
    await becomesSynced()
    sent.length = 0
    for (const replicas of [5, 7, 3])
      await ground.merge(key, { spec: { replicas } }, 'kube-controller-manager', 'scale')
    // one watch has both objects, and comparisons go in order: once the marker's is there, none of the others is to come
    const marker = keyOf('Deployment', 'marker', 'shop', 'apps')
    await ground.merge(marker, { spec: { paused: true } }, 'kubectl-edit')
    await becomes((now) => now?.drifted[0]?.key?.name === 'marker')
    t.strictSame(sent, [])
    t.equal(state()?.drifted.length, 1)
    t.equal((await ground.get(key)).spec.replicas, 3)
    await ground.merge(key, { spec: { replicas: 4, paused: true } }, 'kubectl-edit')
    await becomes((now) => now?.drifted.some(({ path }) => path.join() === '.spec.paused') ?? false)
    await ground.client.json('DELETE', ground.path(marker))
    await ground.client.json('DELETE', ground.path(hpa))
    await ended(stop)
  })

  await t.test('a source that only tries out its commits names drift, and never sets it back', async (t) => {
    const { state, becomes, stop, configure } = await began(t, 107n, { after: '0s' })
    configure({ manifest_projects: [{ ...source, drift: { after: '0s' }, dry_run_strategy: 'server' }] })
    await becomes((now) => now?.phase === Phase.PAUSED)
    await patch(container('nginx:2'), 'kubectl-edit')
    await becomes((now) => now?.drifted[0]?.left === 'paused' && now.counts?.drifted === 1)
    t.match(state()?.drifted[0], { manager: 'kubectl-edit', correctAtMs: 0n })
    t.equal(await image(), 'nginx:2')
    configure({ manifest_projects: [{ ...source, drift: { after: '0s' } }] })
    await eventually(async () => (await image()) === 'nginx:1')
    await ended(stop)
  })

  await t.test('a hold by annotation keeps it, until the annotation goes', async (t) => {
    const { becomes, stop } = await began(t, 106n, { after: '0s' })
    const until = new Date(Date.now() + 3600_000).toISOString()
    await patch(
      { metadata: { annotations: { 'agent.gitlab.com/correct-after': until } }, ...container('nginx:2') },
      'kubectl-edit',
    )
    await becomes((now) => now?.drifted[0]?.left === 'hold')
    t.equal(await image(), 'nginx:2')
    await patch({ metadata: { annotations: { 'agent.gitlab.com/correct-after': null } } }, 'kubectl-annotate')
    await eventually(async () => (await image()) === 'nginx:1')
    await ended(stop)
  })
})
