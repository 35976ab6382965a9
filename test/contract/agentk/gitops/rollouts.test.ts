import t from 'tap'
import { missingAssets } from '../../../../dev/control-plane/assets.ts'
import { ControlPlane } from '../../../../dev/control-plane/control-plane.ts'
import { Phase } from '../../../../src/proto/gen/gitops_states_pb.ts'
import { eventually } from '../../../support/eventually.ts'
import { Ground, keyOf, skip } from './ground.ts'
import { Pod, type PodOptions } from './pod.ts'
import { RowsSide, source } from './rows-side.ts'

/** ConfigMaps and Secrets stay while Pods of an earlier commit use them. */

const map = (name: string) => `apiVersion: v1\nkind: ConfigMap\nmetadata: { name: ${name} }\ndata: { a: b }\n`
const secret = (name: string) => `apiVersion: v1\nkind: Secret\nmetadata: { name: ${name} }\nstringData: { a: b }\n`
/** Returns the template of a Pod that reads the ConfigMap `name`. */
const reading = (name: string, app: string) => ({
  metadata: { labels: { app } },
  spec: { containers: [{ name: 'a', image: 'a', envFrom: [{ configMapRef: { name } }] }] },
})
const workload = (kind: string, name: string, template: object) => `
apiVersion: apps/v1
kind: ${kind}
metadata: { name: ${name} }
spec:
${kind === 'StatefulSet' ? '  serviceName: a\n  replicas: 2' : ''}
  selector: { matchLabels: { app: ${name} } }
  template: ${JSON.stringify(template)}
`

t.test('rollouts', { skip, timeout: 240_000 }, async (t) => {
  const ground = await Ground.start(t)
  for (const name of ['shop', 'gitops']) await ground.create(keyOf('Namespace', name, ''), { metadata: { name } })
  await ground.create(keyOf('ServiceAccount', 'default'), { metadata: { name: 'default', namespace: 'shop' } })
  const appsKey = (kind: string, name: string) => keyOf(kind, name, 'shop', 'apps')
  const ownerOf = async (kind: string, name: string) => {
    const { uid } = (await ground.get(appsKey(kind, name))).metadata
    return { apiVersion: 'apps/v1', kind, name, uid, controller: true }
  }
  const scale = (name: string, replicas: number) =>
    ground.merge(appsKey('ReplicaSet', name), { status: { replicas } }, 'kube-controller-manager', 'status')
  /** Makes a ReplicaSet from the Deployment's template, as the controller does. */
  const replicaSet = async (name: string, of: string, replicas = 2) => {
    const { template } = (await ground.get(appsKey('Deployment', of))).spec
    const labels = { app: of, 'pod-template-hash': 'x' }
    const metadata = { name, namespace: 'shop', labels, ownerReferences: [await ownerOf('Deployment', of)] }
    const spec = { replicas, selector: { matchLabels: labels }, template: { ...template, metadata: { labels } } }
    await ground.create(appsKey('ReplicaSet', name), { apiVersion: 'apps/v1', kind: 'ReplicaSet', metadata, spec })
    await scale(name, replicas)
  }
  let sources = 600n
  const start = (more: Partial<PodOptions> = {}) =>
    new Pod(ground, { projectId: ++sources, block: { prune_limit: '100%' }, ...more })
  const names = (keys: readonly { readonly name: string }[]) => keys.map(({ name }) => name).sort()

  await t.test('what the Pods of before name at any place stays, and goes when these Pods have gone', async (t) => {
    const pod = start()
    const used = ['env-map', 'from-map', 'volume-map', 'part-map', 'env-secret', 'volume-secret', 'part-secret', 'pull']
    const object = (name: string) => (name.endsWith('map') ? map(name) : secret(name))
    const template = {
      metadata: { labels: { app: 'web' } },
      spec: {
        imagePullSecrets: [{ name: 'pull' }],
        initContainers: [
          {
            name: 'i',
            image: 'a',
            env: [{ name: 'A', valueFrom: { secretKeyRef: { name: 'env-secret', key: 'a' } } }],
          },
        ],
        containers: [
          {
            name: 'a',
            image: 'a',
            envFrom: [{ configMapRef: { name: 'from-map' } }],
            env: [{ name: 'A', valueFrom: { configMapKeyRef: { name: 'env-map', key: 'a' } } }],
          },
        ],
        volumes: [
          { name: 'a', configMap: { name: 'volume-map' } },
          { name: 'b', secret: { secretName: 'volume-secret' } },
          {
            name: 'c',
            projected: { sources: [{ configMap: { name: 'part-map' } }, { secret: { name: 'part-secret' } }] },
          },
        ],
      },
    }
    const files = Object.fromEntries([...used, 'idle-map'].map((name) => [`${name}.yaml`, object(name)]))
    await pod.bring({ ...files, 'web.yaml': workload('Deployment', 'web', template) })
    await replicaSet('web-1', 'web')
    const next = { 'web.yaml': workload('Deployment', 'web', reading('new-map', 'web')), 'new.yaml': map('new-map') }
    const waiting = await pod.bring(next)
    t.strictSame(names(waiting.pruned), ['idle-map'], 'what nobody uses goes at once')
    const held = [...waiting.entries.values()].filter(({ state }) => state === 'waits')
    t.strictSame(names(held.map(({ key }) => key)), [...used].sort())
    t.match(held[0]?.reason, /^Pods of ReplicaSet web-1 use it: it goes once the rollout of Deployment web is over\. /)
    t.match([...waiting.reasons.values()].filter(({ code }) => code === 'rolloutRuns').length, used.length)
    await ground.merge(
      appsKey('Deployment', 'web'),
      { status: { conditions: [{ type: 'Progressing', status: 'False', reason: 'X', message: 'it has timed out' }] } },
      'kube-controller-manager',
      'status',
    )
    const hanging = await pod.bring(next)
    t.match(
      [...hanging.entries.values()].find(({ key }) => key.name === 'pull')?.reason,
      /is over, which hangs: it has timed out\./,
    )
    await ground.client.json('DELETE', ground.path(keyOf('Secret', 'pull')))
    t.equal((await pod.bring(next)).entries.has('/Secret/shop/pull'), false, 'what was deleted by hand is forgotten')
    await replicaSet('web-2', 'web')
    await scale('web-1', 0)
    t.strictSame(names((await pod.bring(next)).pruned), used.filter((name) => name !== 'pull').sort())
  })

  await t.test('what is not a matter of a rollout goes', async (t) => {
    const cases: [string, before: object, after: object | undefined, replicas: number][] = [
      ['scaled', reading('scaled-map', 'scaled'), reading('x', 'scaled'), 0],
      ['named', reading('named-map', 'named'), reading('named-map', 'named'), 2],
      ['gone', reading('gone-map', 'gone'), undefined, 2],
    ]
    for (const [name, before, after, replicas] of cases) {
      const pod = start()
      const stays = { 'stays.yaml': map(`${name}-stays`) }
      const files = { ...stays, 'map.yaml': map(`${name}-map`), 'a.yaml': workload('Deployment', name, before) }
      await pod.bring(files)
      await replicaSet(`${name}-1`, name, replicas)
      const next = { ...stays, ...(after && { 'a.yaml': workload('Deployment', name, after) }) }
      const { pruned, notes } = await pod.bring(next)
      t.ok(names(pruned).includes(`${name}-map`), name)
      t.strictSame(notes, [])
    }
  })

  await t.test('revisions of StatefulSets and DaemonSets count while they have Pods', async (t) => {
    for (const kind of ['StatefulSet', 'DaemonSet']) {
      const app = kind.toLowerCase()
      const pod = start()
      const of = (used: string) => ({ 'a.yaml': workload(kind, app, reading(used, app)), 'b.yaml': map(used) })
      await pod.bring(of(`${app}-one`))
      const owner = await ownerOf(kind, app)
      const [revision, hash] = [`${app}-5f7`, kind === 'DaemonSet' ? '5f7' : `${app}-5f7`]
      const labels = { app, 'controller-revision-hash': hash }
      const metadata = { namespace: 'shop', labels, ownerReferences: [owner] }
      const data = { spec: { template: reading(`${app}-one`, app) } }
      const about = { apiVersion: 'apps/v1', kind: 'ControllerRevision', metadata: { ...metadata, name: revision } }
      await ground.create(appsKey('ControllerRevision', revision), { ...about, data, revision: 1 })
      const runs = { metadata: { ...metadata, name: `${app}-0` }, spec: reading('x', app).spec }
      await ground.create(keyOf('Pod', `${app}-0`), { apiVersion: 'v1', kind: 'Pod', ...runs })
      const waiting = await pod.bring(of(`${app}-two`))
      t.strictSame(waiting.pruned, [])
      const text = new RegExp(
        `^Pods of ControllerRevision ${revision} use it: it goes once the rollout of ${kind} ${app}`,
      )
      t.match([...waiting.reasons.values()], [{ code: 'rolloutRuns', text }])
      const now = { gracePeriodSeconds: 0 }
      await ground.client.json('DELETE', ground.path(keyOf('Pod', `${app}-0`)), now)
      t.match((await pod.bring(of(`${app}-two`))).pruned, [{ name: `${app}-one` }])
    }
  })

  await t.test('where nobody may list what runs, a note says so, and what has left goes', async (t) => {
    const answer = (_: string, path: string) => (path.includes('/replicasets') ? { status: 403, body: {} } : undefined)
    const pod = start({ answer })
    const of = (used: string) => ({
      'a.yaml': workload('Deployment', 'hidden', reading(used, 'hidden')),
      'b.yaml': map(used),
    })
    await pod.bring(of('hidden-one'))
    await replicaSet('hidden-1', 'hidden')
    const { pruned, notes } = await pod.bring(of('hidden-two'))
    t.match(pruned, [{ name: 'hidden-one' }])
    const text = 'whether Pods in namespace shop use what has left is not known: replicasets cannot be listed (403)'
    t.strictSame(notes, [text])
  })

  await t.test('while the API server does not answer, all stays', async (t) => {
    let status = 200
    const answer = (_: string, path: string) =>
      status !== 200 && path.includes('/replicasets') ? { status, body: {} } : undefined
    const pod = start({ answer })
    const of = (used: string) => ({
      'a.yaml': workload('Deployment', 'away', reading(used, 'away')),
      'b.yaml': map(used),
    })
    await pod.bring(of('away-one'))
    status = 503
    const { pruned, reasons } = await pod.bring(of('away-two'))
    t.match([pruned, [...reasons.values()]], [[], [{ code: 'rolloutRuns', text: /not known: .* \(503\)$/ }]])
    status = 200
    t.match((await pod.bring(of('away-two'))).pruned, [{ name: 'away-one' }])
  })

  await t.test('the source asks again by itself', async (t) => {
    const side = new RowsSide(ground, 690n)
    const { project, row, becomes, stop } = await side.start(t, [source])
    const of = (used: string) => ({
      'a.yaml': workload('Deployment', 'again', reading(used, 'again')),
      'b.yaml': map(used),
    })
    project.push(of('again-one'))
    await becomes(Phase.SYNCED)
    await replicaSet('again-1', 'again')
    project.push(of('again-two'))
    const { kept } = await becomes(Phase.SYNCED)
    t.match(kept, [{ code: 'rolloutRuns', key: { name: 'again-one' } }])
    await scale('again-1', 0)
    await eventually(async () => (await ground.get(keyOf('ConfigMap', 'again-one'))) === undefined)
    await eventually(() => row()?.kept.length === 0)
    await stop()
  })
})

const assets = process.env.KUBEBUILDER_ASSETS ?? ''
const absent = missingAssets(assets, 'all')
const needs = absent.length > 0 && `needs ${absent.join(', ')}`

t.test(
  'a rollout that hangs, by Kubernetes’ own controllers, and the commit that ends it',
  { skip: needs, timeout: 300_000 },
  async (t) => {
    const controlPlane = new ControlPlane({ assets, parts: 'all' })
    t.teardown(() => controlPlane.stop())
    await controlPlane.start()
    const ground = await Ground.start(t, controlPlane)
    for (const name of ['shop', 'gitops']) await ground.create(keyOf('Namespace', name, ''), { metadata: { name } })
    await eventually(async () => (await ground.get(keyOf('ServiceAccount', 'default'))) !== undefined)
    const side = new RowsSide(ground, 720n)
    const { project, becomes, row, stop } = await side.start(t, [{ ...source, prune_limit: '100%' }])
    for (const kind of ['Deployment', 'StatefulSet']) {
      const app = `real-${kind.toLowerCase()}`
      const of = (used: string, selector = {}) => {
        const template = reading(`${app}-${used}`, app)
        const spec = { ...template.spec, nodeSelector: selector }
        return { 'a.yaml': workload(kind, app, { ...template, spec }), 'b.yaml': map(`${app}-${used}`) }
      }
      const status = async () => (await ground.get(keyOf(kind, app, 'shop', 'apps')))?.status ?? {}
      const is = (name: string) => ground.get(keyOf('ConfigMap', `${app}-${name}`))
      project.push(of('one'))
      await becomes(Phase.SYNCED)
      await eventually(async () => (await status()).readyReplicas === (kind === 'StatefulSet' ? 2 : 1))
      project.push(of('two', { nowhere: 'x' }))
      const { kept } = await becomes(Phase.SYNCED)
      const text = new RegExp(`the rollout of ${kind} ${app} is over`)
      t.match(kept, [{ code: 'rolloutRuns', text, key: { name: `${app}-one` } }], kind)
      t.ok(await is('one'))
      project.push(of('three'))
      if (kind === 'StatefulSet') {
        const pod = keyOf('Pod', `${app}-1`) // the controller waits for it, and replaces the other one later
        await eventually(async () => (await status()).observedGeneration === 3)
        await ground.client.json('DELETE', ground.path(pod), { gracePeriodSeconds: 0 }) // the row names this command
      }
      await eventually(async () => !(await is('one')) && !(await is('two')) && row()?.kept.length === 0)
      t.ok(await is('three'))
    }
    await stop()
  },
)
