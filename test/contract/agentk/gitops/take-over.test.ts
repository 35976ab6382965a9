import t from 'tap'
import { ownerAnnotation } from '../../../../src/agentk/modules/gitops/manifests/annotations.ts'
import type { ObjectTree } from '../../../../src/agentk/modules/gitops/manifests/manifest.ts'
import type { ObjectKey } from '../../../../src/kubernetes/key.ts'
import type { SourceBlock } from '../../../../src/proto/gitops/schema.ts'
import { configMap, deployment, Ground, keyOf, skip } from './ground.ts'
import { Pod } from './pod.ts'

/** A source takes over a cluster that another program has synced from the same manifests. */

const caBundle = Buffer.from('-----BEGIN CERTIFICATE-----\n-----END CERTIFICATE-----\n').toString('base64')

interface Former {
  readonly name: string
  readonly block: SourceBlock
  /** labels and annotations of each object */
  readonly metadata: { labels?: Record<string, string>; annotations?: Record<string, string> }
  write(ground: Ground, key: ObjectKey, object: ObjectTree): Promise<void>
  /** Creates objects that the program leaves in the cluster. */
  leave?(ground: Ground, keys: readonly ObjectKey[]): Promise<void>
  /** block of the source for objects that no longer name their maker */
  readonly erased: SourceBlock
}

const appliedBy = (manager: string) => (ground: Ground, key: ObjectKey, object: ObjectTree) =>
  ground.apply(key, object, manager)

/** Creates objects as client-side apply does. */
const createdBy = (manager: string) => (ground: Ground, key: ObjectKey, object: ObjectTree) => {
  const { metadata } = object as { metadata: { annotations?: object } }
  const last = { 'kubectl.kubernetes.io/last-applied-configuration': JSON.stringify(object) }
  const annotations = { ...metadata.annotations, ...last }
  return ground.create(key, { ...object, metadata: { ...metadata, annotations } }, manager)
}

const stockKey = ({ namespace, name, group, kind }: ObjectKey) =>
  `${namespace}_${name.replaceAll(':', '__')}_${group}_${kind}`

const formers: readonly Former[] = [
  {
    name: 'the stock agent',
    block: {},
    metadata: { annotations: { [ownerAnnotation]: '42-1' } },
    write: appliedBy('agentk'),
    leave: (ground, keys) =>
      ground.create(keyOf('ConfigMap', 'inventory-42-1'), {
        metadata: { name: 'inventory-42-1', labels: { 'cli-utils.sigs.k8s.io/inventory-id': '42-1' } },
        data: Object.fromEntries(keys.map((key) => [stockKey(key), ''])),
      }),
    erased: {},
  },
  {
    name: 'Flux',
    block: { adopt: ['kustomize-controller'] },
    metadata: {
      labels: { 'kustomize.toolkit.fluxcd.io/name': 'shop', 'kustomize.toolkit.fluxcd.io/namespace': 'flux' },
    },
    write: appliedBy('kustomize-controller'),
    erased: { adopt: ['kustomize-controller'], inventory_policy: 'adopt_if_no_inventory' },
  },
  {
    name: 'Argo CD, by server-side apply',
    block: { adopt: ['argocd-controller'] },
    metadata: { annotations: { 'argocd.argoproj.io/tracking-id': 'shop:v1/ConfigMap:shop/a' } },
    write: appliedBy('argocd-controller'),
    erased: { adopt: ['argocd-controller'], inventory_policy: 'adopt_if_no_inventory' },
  },
  {
    name: 'Argo CD',
    block: { adopt: ['argocd-controller'] },
    metadata: { labels: { 'app.kubernetes.io/instance': 'shop' } },
    write: createdBy('argocd-controller'),
    erased: { adopt: ['argocd-controller'], inventory_policy: 'adopt_if_no_inventory' },
  },
  {
    name: 'kubectl apply',
    block: { adopt: ['kubectl-client-side-apply'] },
    metadata: {},
    write: createdBy('kubectl-client-side-apply'),
    erased: { inventory_policy: 'adopt_if_no_inventory' },
  },
]

const webhook = (name: string): ObjectTree => ({
  apiVersion: 'admissionregistration.k8s.io/v1',
  kind: 'ValidatingWebhookConfiguration',
  metadata: { name, annotations: { 'cert-manager.io/inject-ca-from': 'shop/web' } },
  webhooks: [
    {
      name: 'web.example.com',
      admissionReviewVersions: ['v1'],
      sideEffects: 'None',
      failurePolicy: 'Ignore',
      clientConfig: { service: { namespace: 'shop', name: 'none' } },
      rules: [{ apiGroups: ['example.com'], apiVersions: ['v1'], operations: ['CREATE'], resources: ['nones'] }],
    },
  ],
})

t.test('a cluster goes over', { skip, timeout: 300_000 }, async (t) => {
  const ground = await Ground.start(t)
  for (const name of ['shop', 'gitops']) await ground.create(keyOf('Namespace', name, ''), { metadata: { name } })
  for (const [index, former] of formers.entries()) {
    await t.test(former.name, async (t) => {
      for (const isErased of [false, true]) {
        const about = `${index}-${isErased ? 'erased' : 'known'}`
        const keys = {
          map: keyOf('ConfigMap', `map-${about}`),
          gone: keyOf('ConfigMap', `gone-${about}`),
          web: keyOf('Deployment', `web-${about}`, 'shop', 'apps'),
          hook: keyOf('ValidatingWebhookConfiguration', `hook-${about}`, '', 'admissionregistration.k8s.io'),
        }
        const manifests: [ObjectKey, ObjectTree][] = [
          [keys.map, configMap(keys.map.name, { kept: '1', dropped: '1' })],
          [keys.gone, configMap(keys.gone.name, { kept: '1' })],
          [keys.web, deployment(keys.web.name, { replicas: 2 })],
          [keys.hook, webhook(keys.hook.name)],
        ]
        for (const [key, object] of manifests) {
          const { metadata } = object as { metadata: { annotations?: object } }
          const annotations = { ...metadata.annotations, ...former.metadata.annotations }
          const marked = { ...object, metadata: { ...metadata, ...former.metadata, annotations } }
          await former.write(ground, key, marked)
        }
        if (!isErased) await former.leave?.(ground, Object.values(keys))
        // changes by others
        await ground.create(keyOf('HorizontalPodAutoscaler', keys.web.name, 'shop', 'autoscaling'), {
          metadata: { name: keys.web.name },
          spec: { scaleTargetRef: { apiVersion: 'apps/v1', kind: 'Deployment', name: keys.web.name }, maxReplicas: 9 },
        })
        await ground.merge(keys.web, { spec: { replicas: 7 } }, 'kube-controller-manager', 'scale')
        const { webhooks } = await ground.get(keys.hook)
        webhooks[0].clientConfig.caBundle = caBundle
        await ground.merge(keys.hook, { webhooks }, 'cert-manager-cainjector')
        await ground.merge(keys.map, { data: { theirs: '1' } }, 'somebody')
        if (isErased) {
          for (const key of Object.values(keys)) await ground.merge(key, { metadata: { managedFields: [{}] } })
        }
        const uids = async () =>
          Promise.all(Object.values(keys).map(async (key) => (await ground.get(key)).metadata.uid))
        const before = await uids()

        const pod = new Pod(ground, { projectId: BigInt(index + 1), block: isErased ? former.erased : former.block })
        const files = Object.fromEntries(manifests.map(([key, object]) => [`${key.name}.json`, JSON.stringify(object)]))
        const { ends, pruned, planDigest } = await pod.bring(files)
        for (const [name, end] of Object.entries(ends)) t.match(end, { kind: 'applied' }, `${about}: ${name}`)
        t.strictSame([pruned, planDigest], [[], ''])
        t.strictSame(await uids(), before, `${about}: the same objects`)
        t.equal((await ground.get(keys.web)).spec.replicas, 7, `${about}: as it was scaled`)
        const { labels, annotations } = (await ground.get(keys.map)).metadata
        const own = isErased
          ? []
          : Object.keys({ ...labels, ...annotations }).filter((name) => !/gitlab|owning-/.test(name))
        t.strictSame(own, [], `${about}: nothing says that it is the former's`)
        const [hook] = (await ground.get(keys.hook)).webhooks
        t.equal(hook.clientConfig.caBundle, caBundle, `${about}: as it was injected`)

        // the source owns it: fields that leave the manifest are removed, fields of others stay
        const changed = { ...files, [`${keys.map.name}.json`]: JSON.stringify(configMap(keys.map.name, { kept: '2' })) }
        await pod.bring(changed)
        t.strictSame((await ground.get(keys.map)).data, { kept: '2', theirs: '1' }, `${about}: its fields`)
        t.equal((await ground.get(keys.web)).spec.replicas, 7)
        const { [`${keys.gone.name}.json`]: _, ...left } = changed
        t.match((await pod.bring(left)).pruned, [{ name: keys.gone.name }])
        // deletes everything before the next case
        const { planDigest: all } = await pod.bring({})
        t.equal((await pod.bring({}, { approved: all })).pruned.length, 3)
      }
    })
  }
})
