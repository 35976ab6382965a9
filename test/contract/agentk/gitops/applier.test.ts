import t from 'tap'
import { Applier, type ApplierOptions } from '../../../../src/agentk/modules/gitops/apply/applier.ts'
import { Scalers } from '../../../../src/agentk/modules/gitops/apply/scalers.ts'
import { absentOf } from '../../../../src/agentk/modules/gitops/live/lacked.ts'
import type { LiveObject } from '../../../../src/agentk/modules/gitops/live/live-object.ts'
import type { ApplyProblem } from '../../../../src/agentk/modules/gitops/live/refusal.ts'
import { inventoryLabel, ownerAnnotation } from '../../../../src/agentk/modules/gitops/manifests/annotations.ts'
import type { ObjectTree } from '../../../../src/agentk/modules/gitops/manifests/manifest.ts'
import type { ObjectKey } from '../../../../src/kubernetes/key.ts'
import { eventually } from '../../../support/eventually.ts'
import { anyIdentity } from '../../../support/identities.ts'
import { configMap, deployment, Ground, keyOf, skip } from './ground.ts'

/** Server-side apply with a source's field manager, on a real API server. */

const { signal } = new AbortController()
const id = '42-7'
const manager = `agentk-${id}`
const marks = { labels: { [inventoryLabel]: id }, annotations: { [ownerAnnotation]: id } }

t.test('an applier', { skip, timeout: 180_000 }, async (t) => {
  const ground = await Ground.start(t)
  await ground.create(keyOf('Namespace', 'shop', ''), { metadata: { name: 'shop' } })

  interface Extra extends Partial<ApplierOptions> {
    readonly uid?: string
    readonly headers?: readonly string[]
    readonly handedOver?: string
  }
  const apply = async (key: ObjectKey, object: ObjectTree, extra: Extra = {}) => {
    const kind = ground.kinds.find(key)
    if (!kind) throw new Error(`nobody serves ${key.kind}`)
    const { uid = '', headers = [], handedOver, ...options } = extra
    const lane = ground.lanes.lane('apply', headers)
    const applier = new Applier(
      {
        lane,
        isHandedOver: (owner) => owner === handedOver,
        scalers: new Scalers({ lane, ownLane: lane, kinds: ground.kinds, manifests: [] }),
      },
      { id, manager, adopt: [], inventoryPolicy: 'must_match', conflicts: 'force', ...options },
    )
    const live = await ground.live(key, manager)
    ground.asked.length = 0
    const outcome = await applier.apply({ key, kind, object, live, uid }, signal)
    return 'problem' in outcome ? outcome.problem : outcome.live
  }

  await t.test('a new object, and the same again', async (t) => {
    const key = keyOf('ConfigMap', 'new')
    const first = await apply(key, configMap('new', { a: '1' }, marks))
    t.match(first, { owner: id, digest: '', managers: [manager], isBeingDeleted: false })
    const again = await apply(key, configMap('new', { a: '1' }, marks))
    t.strictSame(again, first)
    t.equal(ground.writes().length, 1)
    const changed = await apply(key, configMap('new', { b: '2' }, marks))
    t.notMatch(changed, { fields: (first as { fields: string }).fields })
    t.strictSame((await ground.get(key)).data, { b: '2' })
  })

  const autoscale = (name: string) =>
    ground.create(keyOf('HorizontalPodAutoscaler', name, 'shop', 'autoscaling'), {
      metadata: { name },
      spec: { maxReplicas: 9, scaleTargetRef: { apiVersion: 'apps/v1', kind: 'Deployment', name } },
    })

  await t.test('an autoscaler keeps its replicas; what else is owned is taken', async (t) => {
    const key = keyOf('Deployment', 'web', 'shop', 'apps')
    await apply(key, deployment('web', { replicas: 2 }, marks))
    await autoscale('web')
    await ground.merge(key, { spec: { replicas: 7 } }, 'kube-controller-manager', 'scale')
    await ground.merge(key, { spec: { minReadySeconds: 9 } }, 'kubectl-edit')
    await apply(key, deployment('web', { replicas: 3, minReadySeconds: 5 }, marks))
    t.match(await ground.get(key), { spec: { replicas: 7, minReadySeconds: 5 } })
    const other = keyOf('Deployment', 'other', 'shop', 'apps')
    await apply(other, deployment('other', { replicas: 2 }, marks))
    for (const manager of ['kubectl', 'k9s', 'kube-controller-manager']) {
      await ground.merge(other, { spec: { replicas: 9 } }, manager, 'scale')
      await apply(other, deployment('other', { replicas: 3 }, marks))
      t.equal((await ground.get(other)).spec.replicas, 3, `${manager}: it has no autoscaler`)
    }
  })

  await t.test('conflicts: fail names fields and owners, and writes nothing', async (t) => {
    const key = keyOf('ConfigMap', 'owned')
    await apply(key, configMap('owned', { a: '1' }, marks))
    await ground.merge(key, { data: { a: '2' } }, 'kubectl-edit')
    const refused = await apply(key, configMap('owned', { a: '1' }, marks), { conflicts: 'fail' })
    t.strictSame(refused, {
      kind: 'conflict',
      text: 'fields of others, and conflicts: fail leaves them: .data.a (kubectl-edit); force takes them',
    })
    t.equal((await ground.get(key)).data.a, '2')
  })

  await t.test('whose it is', async (t) => {
    const key = keyOf('ConfigMap', 'foreign')
    await ground.create(key, configMap('foreign', { a: '1' }))
    const object = configMap('foreign', { a: '2' }, marks)
    t.match(await apply(key, object), { kind: 'foreign', text: /no source has made it/ })
    t.equal(ground.asked.length, 0)
    const { uid } = (await ground.get(key)).metadata
    t.match(await apply(key, object, { uid: 'another' }), { kind: 'foreign' })
    t.match(await apply(key, object, { adopt: ['somebody'] }), { owner: id })
    await ground.merge(key, { metadata: { annotations: { [ownerAnnotation]: null } } })
    t.match(await apply(key, object, { uid }), { owner: id })
    await ground.merge(key, { metadata: { annotations: { [ownerAnnotation]: '41-7' } } })
    t.match(await apply(key, object, { uid }), { kind: 'foreign', text: /belongs to inventory 41-7/ })
    t.match(await apply(key, object, { inventoryPolicy: 'adopt_if_no_inventory' }), { kind: 'foreign' })
    t.match(await apply(key, object, { handedOver: '41-7' }), { owner: id })
    await ground.merge(key, { metadata: { annotations: { [ownerAnnotation]: '41-7' } } })
    t.match(await apply(key, object, { adopt: ['41-7'] }), { owner: id })
    await ground.merge(key, { metadata: { annotations: { [ownerAnnotation]: '41-7' } } })
    t.match(await apply(key, object, { inventoryPolicy: 'adopt_all' }), { owner: id })
  })

  await t.test('an object that was changed since it was read is read again', async (t) => {
    const key = keyOf('ConfigMap', 'raced')
    await apply(key, configMap('raced', { a: '1' }, marks))
    let races = 2
    ground.onAsk = async ({ method }) => {
      if (method === 'PATCH' && races-- > 0) await ground.merge(key, { data: { [`x${races}`]: 'y' } })
    }
    t.match(await apply(key, configMap('raced', { a: '2' }, marks)), { owner: id })
    t.strictSame((await ground.get(key)).data, { a: '2', x0: 'y', x1: 'y' })
    races = 100
    t.match(await apply(key, configMap('raced', { a: '3' }, marks)), { kind: 'busy' })
    t.equal((await ground.get(key)).data.a, '2')
    // another source takes the object meanwhile
    races = 0
    let takes = 1
    ground.onAsk = async ({ method }) => {
      if (method === 'PATCH' && takes-- > 0) {
        await ground.merge(key, { metadata: { annotations: { [ownerAnnotation]: '41-7' } } })
      }
    }
    t.match(await apply(key, configMap('raced', { a: '4' }, marks)), { kind: 'foreign' })
    ground.onAsk = () => undefined
  })

  await t.test('what another has made since it was not there is not touched', async (t) => {
    const key = keyOf('ConfigMap', 'twice')
    const theirs = configMap('twice', { a: 'theirs' }, { annotations: { [ownerAnnotation]: '41-7' } })
    let makes = 1
    ground.onAsk = async ({ method }) => {
      if (method === 'PATCH' && makes-- > 0) await ground.apply(key, theirs, 'agentk-41-7')
    }
    t.match(await apply(key, configMap('twice', { a: 'ours' }, marks)), { kind: 'foreign', text: /41-7/ })
    t.equal((await ground.get(key)).data.a, 'theirs')
    // a frozen leader does not touch it either, although its successor has the same manager
    const newer = keyOf('ConfigMap', 'frozen')
    let successors = 1
    ground.onAsk = async ({ method }) => {
      if (method === 'PATCH' && successors-- > 0) {
        await ground.apply(newer, configMap('frozen', { a: 'newer' }, marks), manager)
        throw new Error('thawed')
      }
    }
    await t.rejects(apply(newer, configMap('frozen', { a: 'older' }, marks)), /thawed/)
    ground.onAsk = () => undefined
    const sent = ground.asked.find(({ method }) => method === 'PATCH')
    const options = { contentType: 'application/apply-patch+yaml' }
    t.match(await ground.client.json('PATCH', sent?.path ?? '', sent?.body, undefined, options), { status: 409 })
    t.equal((await ground.get(newer)).data.a, 'newer')
  })

  await t.test('what is another by the time of its take-over keeps its owners', async (t) => {
    const key = keyOf('ConfigMap', 'late')
    await ground.apply(key, configMap('late', { a: '1' }, { annotations: { [ownerAnnotation]: id } }), 'agentk')
    let takes = 1
    ground.onAsk = async ({ method }) => {
      if (method === 'GET' && takes-- > 0) {
        await ground.merge(key, { metadata: { annotations: { [ownerAnnotation]: '41-7' } } })
      }
    }
    t.match(await apply(key, configMap('late', { a: '2' }, marks)), { kind: 'foreign', text: /41-7/ })
    ground.onAsk = () => undefined
    t.ok((await ground.live(key, manager))?.managers.includes('agentk'))
    t.strictSame(ground.writes(), [])
  })

  await t.test('what another source has applied goes with the manifest, once the object is ours', async (t) => {
    const ways: Record<string, Extra> = { adopted: { adopt: ['41-7'] }, moved: { handedOver: '41-7' } }
    for (const [name, extra] of Object.entries(ways)) {
      const key = keyOf('ConfigMap', name)
      const theirs = configMap(name, { kept: '1', dropped: '1' }, { annotations: { [ownerAnnotation]: '41-7' } })
      await ground.apply(key, theirs, 'agentk-41-7')
      t.match(await apply(key, configMap(name, { kept: '1' }, marks), extra), { owner: id, managers: [manager] }, name)
      t.strictSame((await ground.get(key)).data, { kept: '1' }, name)
    }
  })

  await t.test('what predecessors and adopted managers have applied goes with the manifest', async (t) => {
    for (const [index, before] of ['agentk', 'kubectl-client-side-apply', 'kustomize-controller'].entries()) {
      const name = `old-${index}`
      const key = keyOf('ConfigMap', name)
      const object = configMap(name, { kept: '1', dropped: '1' }, { annotations: { [ownerAnnotation]: id } })
      if (before === 'kubectl-client-side-apply') await ground.create(key, object, before)
      else await ground.apply(key, object, before)
      await ground.merge(key, { data: { theirs: '1' } }, 'kubectl-edit')
      const adopt = ['kustomize-controller']
      const live = await apply(key, configMap(name, { kept: '1' }, marks), { adopt })
      t.equal((live as LiveObject).managers.includes(before), false, before)
      t.strictSame((await ground.get(key)).data, { kept: '1', theirs: '1' }, before)
    }
  })

  await t.test('an object whose owners were forgotten loses nothing that others have set', async (t) => {
    const key = keyOf('Deployment', 'erased', 'shop', 'apps')
    await apply(key, deployment('erased', { replicas: 2 }, marks))
    await autoscale('erased')
    await ground.merge(key, { spec: { replicas: 7 } }, 'kube-controller-manager', 'scale')
    await ground.merge(key, { metadata: { managedFields: [{}] } })
    await apply(key, deployment('erased', { paused: false }, marks))
    t.equal((await ground.get(key)).spec.replicas, 7)
    // a field that leaves the manifest later is removed
    const map = keyOf('ConfigMap', 'erased')
    await apply(map, configMap('erased', { a: '1', b: '1' }, marks))
    await ground.merge(map, { data: { theirs: '1' } })
    await ground.merge(map, { metadata: { managedFields: [{}] } })
    await apply(map, configMap('erased', { a: '1', b: '1' }, marks))
    await apply(map, configMap('erased', { a: '1' }, marks))
    t.strictSame((await ground.get(map)).data, { a: '1', theirs: '1' })
  })

  await t.test('what the API server refuses, by kind', async (t) => {
    const typo = deployment('typo', { replica: 1 }, marks)
    t.match(await apply(keyOf('Deployment', 'typo', 'shop', 'apps'), typo), { kind: 'invalid', text: /replica/ })
    const wrong = deployment('wrong', { replicas: 'two' }, marks)
    t.match(await apply(keyOf('Deployment', 'wrong', 'shop', 'apps'), wrong), { kind: 'invalid' })
    const nowhere = { ...configMap('x', {}), metadata: { name: 'x', namespace: 'nowhere' } }
    t.match(await apply(keyOf('ConfigMap', 'x', 'nowhere'), nowhere), { kind: 'absent', text: /nowhere/ })
    const key = keyOf('Deployment', 'fixed', 'shop', 'apps')
    await apply(key, deployment('fixed', {}, marks))
    const spec = {
      selector: { matchLabels: { app: 'other' } },
      template: { metadata: { labels: { app: 'other' } }, spec: { containers: [{ name: 'web', image: 'nginx:1' }] } },
    }
    t.match(await apply(key, deployment('fixed', spec, marks)), { kind: 'immutable' })
    const service = (name: string) => ({
      apiVersion: 'v1',
      kind: 'Service',
      metadata: { name, namespace: 'shop', ...marks },
      spec: { type: 'NodePort', ports: [{ port: 80, nodePort: 31_000 }], selector: { app: 'x' } },
    })
    t.match(await apply(keyOf('Service', 'one'), service('one')), { owner: id })
    t.match(await apply(keyOf('Service', 'two'), service('two')), { kind: 'taken', text: /already allocated/ })
    const large = configMap('large', { a: 'x'.repeat(1.1 * 1024 * 1024) }, marks)
    t.match(await apply(keyOf('ConfigMap', 'large'), large), { kind: 'invalid' })
  })

  await t.test('what an object lacks is named', async (t) => {
    const pod = (name: string, spec: object) => ({
      apiVersion: 'v1',
      kind: 'Pod',
      metadata: { name, namespace: 'shop', ...marks },
      spec: { containers: [{ name: 'web', image: 'nginx:1' }], ...spec },
    })
    const lacking: Readonly<Record<string, readonly [object, object]>> = {
      account: [{ serviceAccountName: 'late' }, { resource: 'serviceaccount', name: 'late' }],
      priority: [{ priorityClassName: 'late' }, { resource: 'priorityclass', name: 'late' }],
      runtime: [{ runtimeClassName: 'late' }, { resource: 'runtimeclass', name: 'late' }],
    }
    const { kinds } = ground
    await ground.create(keyOf('ServiceAccount', 'default'), { metadata: { name: 'default' } })
    for (const [name, [spec, lacks]] of Object.entries(lacking)) {
      const key = keyOf('Pod', name)
      const problem = await apply(key, pod(name, spec))
      t.match(problem, { kind: 'denied', lacks }, name)
      const path = { account: '/api/v1/namespaces/shop/serviceaccounts/late' }[name] ?? /^\/apis\/.*classes\/late$/
      t.match(absentOf(problem as ApplyProblem, { key, version: 'v1' }, kinds), { path }, name)
    }
    const nowhere = { ...configMap('x', {}), metadata: { name: 'x', namespace: 'nowhere' } }
    const key = keyOf('ConfigMap', 'x', 'nowhere')
    const problem = (await apply(key, nowhere)) as ApplyProblem
    t.strictSame(absentOf(problem, { key, version: 'v1' }, kinds), { path: '/api/v1/namespaces/nowhere' })
    await ground.create(keyOf('ValidatingWebhookConfiguration', 'lacks', '', 'admissionregistration.k8s.io'), {
      metadata: { name: 'lacks' },
      webhooks: [
        {
          name: 'lacks.example.com',
          clientConfig: { service: { namespace: 'hooks', name: 'late' }, caBundle: '' },
          rules: [{ apiGroups: [''], apiVersions: ['v1'], operations: ['CREATE'], resources: ['configmaps'] }],
          objectSelector: { matchLabels: { asks: 'hook' } },
          admissionReviewVersions: ['v1'],
          sideEffects: 'None',
        },
      ],
    })
    const asking = { ...marks, labels: { ...marks.labels, asks: 'hook' } }
    const hook = await eventually(async () => {
      const found = await apply(keyOf('ConfigMap', 'asking'), configMap('asking', {}, asking))
      return 'kind' in found && found
    })
    t.match(hook, { kind: 'webhook', lacks: { resource: 'service', name: 'late', namespace: 'hooks' } })
    t.strictSame(absentOf(hook, { key: keyOf('ConfigMap', 'asking'), version: 'v1' }, kinds), {
      path: '/api/v1/namespaces/hooks/services/late',
    })
  })

  await t.test('as the account of the source', async (t) => {
    const headers = anyIdentity.accountHeaders({ namespace: 'shop', name: 'deployer' })
    const key = keyOf('ConfigMap', 'as')
    t.match(await apply(key, configMap('as', { a: '1' }, marks), { headers }), {
      kind: 'denied',
      text: /system:serviceaccount:shop:deployer/,
    })
    t.equal(await ground.get(key), undefined)
  })
})
