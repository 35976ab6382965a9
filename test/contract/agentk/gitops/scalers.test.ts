import t from 'tap'
import type { Finding } from '../../../../src/agentk/modules/gitops/finding.ts'
import type { RoundInput } from '../../../../src/agentk/modules/gitops/reconcile.ts'
import { Ground, keyOf, skip } from './ground.ts'
import { Pod } from './pod.ts'

/** Number of replicas: the autoscaler's if one targets the object, otherwise the number in Git. */

const group = 'scalers.example.com'
const crd = `
apiVersion: apiextensions.k8s.io/v1
kind: CustomResourceDefinition
metadata: { name: scaledobjects.${group} }
spec:
  group: ${group}
  scope: Namespaced
  names: { plural: scaledobjects, kind: ScaledObject, singular: scaledobject }
  versions: [{ name: v1, served: true, storage: true, schema: { openAPIV3Schema: { type: object, x-kubernetes-preserve-unknown-fields: true } } }]
`
const workload = (kind: string, name: string, replicas?: number, image = 'a') => `
apiVersion: apps/v1
kind: ${kind}
metadata: { name: ${name} }
spec:
${replicas === undefined ? '' : `  replicas: ${replicas}`}
  ${kind === 'StatefulSet' ? 'serviceName: a' : ''}
  selector: { matchLabels: { app: ${name} } }
  template: { metadata: { labels: { app: ${name} } }, spec: { containers: [{ name: a, image: ${image} }] } }
`
const autoscaler = (name: string, kind = 'Deployment') => `
apiVersion: autoscaling/v2
kind: HorizontalPodAutoscaler
metadata: { name: ${name}-scaler }
spec: { minReplicas: 8, maxReplicas: 9, scaleTargetRef: { apiVersion: apps/v1, kind: ${kind}, name: ${name} } }
`
const scaledObject = (name: string) =>
  `apiVersion: ${group}/v1\nkind: ScaledObject\nmetadata: { name: ${name}-keda }\nspec: { scaleTargetRef: { name: ${name} } }\n`

t.test('replicas', { skip, timeout: 240_000 }, async (t) => {
  const ground = await Ground.start(t)
  for (const name of ['shop', 'gitops']) await ground.create(keyOf('Namespace', name, ''), { metadata: { name } })
  let sources = 0n
  const start = (block: object = {}) =>
    new Pod(ground, { projectId: ++sources, block: { prune_limit: '100%', prune_confirm: [], ...block } })
  const keyed = (name: string, kind = 'Deployment') => keyOf(kind, name, 'shop', 'apps')
  const replicas = async (name: string, kind?: string) => (await ground.get(keyed(name, kind))).spec.replicas
  const scale = (name: string, to: number, manager = 'kube-controller-manager', kind?: string) =>
    ground.merge(keyed(name, kind), { spec: { replicas: to } }, manager, 'scale')

  await t.test('after the autoscaler has gone, the number of Git holds', async (t) => {
    for (const kind of ['Deployment', 'StatefulSet']) {
      const [pod, name] = [start(), `gone-${kind.toLowerCase()}`]
      const files = { 'web.yaml': workload(kind, name, 5) }
      const both = { ...files, 'scaler.yaml': autoscaler(name, kind) }
      await pod.bring(both)
      await scale(name, 8, undefined, kind)
      await pod.bring(both)
      t.equal(await replicas(name, kind), 8)
      t.match((await pod.bring(files)).pruned, [{ name: `${name}-scaler` }])
      t.match((await pod.bring(files)).kinds, { [name]: 'applied' })
      t.equal(await replicas(name, kind), 5)
      t.match((await pod.bring(files)).kinds, { [name]: 'unchanged' })
      await pod.bring({ 'web.yaml': workload(kind, name, 4) })
      t.equal(await replicas(name, kind), 4)
    }
  })

  await t.test('whoever else has scaled it is no autoscaler', async (t) => {
    for (const manager of ['k9s', 'kubectl', 'headlamp', 'kube-controller-manager']) {
      const [pod, name] = [start(), `hand-${manager}`]
      await pod.bring({ 'web.yaml': workload('Deployment', name, 8) })
      await scale(name, 1, manager)
      await pod.bring({ 'web.yaml': workload('Deployment', name, 7) })
      t.equal(await replicas(name), 7, manager)
    }
  })

  const findingOf = (name: string): Finding => ({
    key: keyed(name),
    version: 'v1',
    file: 'web.yaml',
    line: 1,
    kind: 'drifted',
    isDeleted: false,
    differences: [],
    more: 0,
    by: undefined,
    since: 0,
    reason: '',
    holdUntil: undefined,
    resourceVersion: '',
  })

  await t.test('a scaling that is known as drift is set back when drift says so', async (t) => {
    const [pod, name] = [start(), 'known']
    const files = { 'web.yaml': workload('Deployment', name, 8) }
    await pod.bring(files)
    await scale(name, 1, 'kubectl')
    const finding = findingOf(name)
    const isDrifted = () => true
    const left = await pod.bring(files, { isDrifted, judge: async (_, { live }) => ({ kind: 'left', finding, live }) })
    t.match(left.kinds, { [name]: 'drifted' })
    t.equal(await replicas(name), 1)
    await pod.bring(files, { isDrifted, judge: async () => ({ kind: 'write', finding }) })
    t.equal(await replicas(name), 8)
  })

  await t.test('a scaling by hand that no watch has shown yet is not set back at once', async (t) => {
    const left = (name: string): RoundInput['judge'] => {
      return async (_, { live }) => ({ kind: 'left', finding: findingOf(name), live })
    }
    const byHand = {
      'a-kubectl': (name: string) => scale(name, 1, 'kubectl'),
      'an-edit': (name: string) => ground.merge(keyed(name), { spec: { replicas: 1 } }, 'kubectl-edit'),
      'a-script': (name: string) => ground.merge(keyed(name), { spec: { replicas: 1 } }, 'script'),
    }
    for (const [name, change] of Object.entries(byHand)) {
      const pod = start()
      const files = { 'web.yaml': workload('Deployment', name, 8) }
      await pod.bring(files)
      await change(name)
      t.match((await pod.bring(files, { judge: left(name) })).kinds, { [name]: 'drifted' })
      t.equal(await replicas(name), 1, name)
    }
    const [pod, name] = [start(), 'an-autoscaler']
    const files = { 'web.yaml': workload('Deployment', name, 8) }
    await pod.bring(files)
    await scale(name, 1)
    await pod.bring(files, { judge: left(name) })
    t.equal(await replicas(name), 8, 'one that has gone leaves nothing behind')
  })

  await t.test('a commit that takes the number out and brings the autoscaler leaves it as it is', async (t) => {
    const pod = start()
    await pod.bring({ 'crd.yaml': crd, 'one.yaml': scaledObject('nobody') })
    await ground.readKinds()
    for (const [name, scaler] of Object.entries({ hpa: autoscaler('hpa'), keda: scaledObject('keda') })) {
      const own = start()
      await own.bring({ 'web.yaml': workload('Deployment', name, 5) })
      const files = { 'web.yaml': workload('Deployment', name), 'scaler.yaml': scaler }
      await own.bring(files)
      t.equal(await replicas(name), 5, name)
      await own.bring({ ...files, 'web.yaml': workload('Deployment', name, undefined, 'b') })
      t.equal(await replicas(name), 5, name)
    }
    const without = start()
    await without.bring({ 'web.yaml': workload('Deployment', 'unset', 5) })
    await without.bring({ 'web.yaml': workload('Deployment', 'unset') })
    t.equal(await replicas('unset'), 1, 'without an autoscaler it is the default again')
  })

  await t.test('of a custom kind the number stands where its definition says', async (t) => {
    const names = '{ plural: crews, kind: Crew, singular: crew }'
    const scale = '{ scale: { specReplicasPath: .spec.workers.size, statusReplicasPath: .status.size } }'
    const schema = '{ openAPIV3Schema: { type: object, x-kubernetes-preserve-unknown-fields: true } }'
    const version = `{ name: v1, served: true, storage: true, subresources: ${scale}, schema: ${schema} }`
    const definition = `
apiVersion: apiextensions.k8s.io/v1
kind: CustomResourceDefinition
metadata: { name: crews.${group} }
spec: { group: ${group}, scope: Namespaced, names: ${names}, versions: [${version}] }
`
    const crew = (name: string, spec: string) =>
      `apiVersion: ${group}/v1\nkind: Crew\nmetadata: { name: ${name} }\nspec: { ${spec} }\n`
    const own = (name: string) => autoscaler(name, 'Crew').replace('apiVersion: apps/v1', `apiVersion: ${group}/v1`)
    await start().bring({ 'crd.yaml': definition, 'first.yaml': crew('first', '') })
    await ground.readKinds()
    const size = async (name: string) => (await ground.get(keyOf('Crew', name, 'shop', group))).spec.workers?.size
    const pod = start()
    const files = (image: string) => ({ 'crew.yaml': crew('scaled', `workers: { size: 5 }, image: ${image}`) })
    await pod.bring({ ...files('a'), 'scaler.yaml': own('scaled') })
    await ground.merge(
      keyOf('Crew', 'scaled', 'shop', group),
      { spec: { replicas: 8 } },
      'kube-controller-manager',
      'scale',
    )
    await pod.bring({ ...files('b'), 'scaler.yaml': own('scaled') })
    t.equal(await size('scaled'), 8, 'scaled')
    const edited = { spec: { workers: { size: 7 } } }
    await ground.merge(keyOf('Crew', 'scaled', 'shop', group), edited, 'kubectl-edit')
    await pod.bring({ ...files('c'), 'scaler.yaml': own('scaled') })
    t.equal(await size('scaled'), 7, 'whoever has set it')
    await ground.merge(
      keyOf('Crew', 'scaled', 'shop', group),
      { spec: { replicas: 8 } },
      'kube-controller-manager',
      'scale',
    )
    await pod.bring(files('c'))
    await pod.bring(files('c'))
    t.equal(await size('scaled'), 5, 'after the autoscaler has gone')
    const taken = start()
    await taken.bring({ 'crew.yaml': crew('taken', 'workers: { size: 5 }, image: a') })
    await taken.bring({ 'crew.yaml': crew('taken', 'image: a'), 'scaler.yaml': own('taken') })
    t.equal(await size('taken'), 5, 'taken out with the autoscaler')
    const plain = start()
    await plain.bring({ 'crew.yaml': crew('plain', 'workers: { size: 5 }, image: a') })
    await plain.bring({ 'crew.yaml': crew('plain', 'image: a') })
    t.equal(await size('plain'), undefined, 'and without one')
  })

  await t.test('so does one that takes over what kubectl has applied', async (t) => {
    const object = {
      metadata: { name: 'moved' },
      spec: {
        replicas: 5,
        selector: { matchLabels: { app: 'moved' } },
        template: { metadata: { labels: { app: 'moved' } }, spec: { containers: [{ name: 'a', image: 'a' }] } },
      },
    }
    await ground.create(keyed('moved'), object, 'kubectl-client-side-apply')
    const pod = start({ inventory_policy: 'adopt_if_no_inventory' })
    await pod.bring({ 'web.yaml': workload('Deployment', 'moved'), 'scaler.yaml': autoscaler('moved') })
    t.equal(await replicas('moved'), 5)
  })

  await t.test('an account that may not list autoscalers leaves the number, and the row says so', async (t) => {
    const account = { namespace: 'shop', name: 'deployer' }
    const rules = [
      { apiGroups: ['', 'apps'], resources: ['*'], verbs: ['*'] },
      { apiGroups: ['storage.k8s.io'], resources: ['*'], verbs: ['get'] },
    ]
    const rbac = 'rbac.authorization.k8s.io'
    await ground.create(keyOf('Role', 'deployer', 'shop', rbac), { metadata: { name: 'deployer' }, rules })
    await ground.create(keyOf('RoleBinding', 'deployer', 'shop', rbac), {
      metadata: { name: 'deployer' },
      roleRef: { apiGroup: rbac, kind: 'Role', name: 'deployer' },
      subjects: [{ kind: 'ServiceAccount', ...account }],
    })
    const pod = start({ access_as: { service_account: account }, namespaces: ['shop'] })
    await pod.bring({ 'web.yaml': workload('Deployment', 'blind', 5) })
    await scale('blind', 8)
    const { kinds, notes } = await pod.bring({ 'web.yaml': workload('Deployment', 'blind', 4) })
    t.match([kinds.blind, await replicas('blind')], ['applied', 8])
    t.match(notes, [/left as they are in namespace shop: the account cannot list horizontalpodautoscalers/])
  })
})
