import t from 'tap'
import { Ground, keyOf, skip } from './ground.ts'
import { Pod } from './pod.ts'
import { map, namespace } from './rows-side.ts'

/** Texts about data that is lost with an object, and about the cause that keeps a deletion from ending. */

const claim = (size: string, annotations = '') => `
apiVersion: v1
kind: PersistentVolumeClaim
metadata: { name: data, annotations: { ${annotations} } }
spec: { storageClassName: none, accessModes: [ReadWriteOnce], resources: { requests: { storage: ${size} } } }
`
const job = (image: string, annotations = '') => `
apiVersion: batch/v1
kind: Job
metadata: { name: task, annotations: { ${annotations} } }
spec: { template: { spec: { restartPolicy: Never, containers: [{ name: a, image: "${image}" }] } } }
`
const replace = 'agent.gitlab.com/replace: allow'
const lost = /the data of its volume is lost unless the reclaim policy of the volume is Retain/

t.test('texts', { skip, timeout: 240_000 }, async (t) => {
  const ground = await Ground.start(t)
  await ground.create(keyOf('Namespace', 'gitops', ''), { metadata: { name: 'gitops' } })
  let sources = 200n
  const start = async (name: string, block: object = {}) => {
    await ground.create(keyOf('Namespace', name, ''), { metadata: { name } })
    return new Pod(ground, { projectId: ++sources, block: { default_namespace: name, ...block } })
  }

  await t.test('a claim that is to be made again, or pruned, says that its data is lost', async (t) => {
    const pod = await start('losses')
    await pod.bring({ 'a.yaml': claim('2Gi'), 'b.yaml': job('a:1') })
    const changed = await pod.bring({ 'a.yaml': claim('1Gi'), 'b.yaml': job('a:2') })
    const texts = ['data', 'task'].map((name) => (changed.ends[name] as { problem: { text: string } }).problem.text)
    t.match(texts[0], /^PersistentVolumeClaim "data" is invalid: spec: Forbidden: spec is immutable after creation/)
    t.match(texts[0], /replace: allow on it has it deleted and made again; the data of its volume is lost/)
    t.notMatch(texts[0], /[\n{]|Gi/, 'no values')
    t.match(texts[1], /made again; its Pods go with it unless prune_propagation_policy is orphan$/)
    t.notMatch(texts[1], 'data')
    const asking = await pod.bring({ 'a.yaml': claim('1Gi', replace), 'b.yaml': job('a:1') })
    t.match(asking.ends.data, {
      problem: { text: /waits for approval: prune_confirm: PersistentVolumeClaim; the data/ },
    })
    await pod.bring({ 'a.yaml': claim('2Gi'), 'b.yaml': job('a:1') })
    const left = await pod.bring({ 'b.yaml': job('a:1') })
    t.match([...left.reasons.values()], [{ text: /^prune_confirm: PersistentVolumeClaim; the data/ }])
  })

  await t.test('so does a namespace with claims of others, and no other one', async (t) => {
    const pod = await start('homes')
    await pod.bring({ 'a.yaml': namespace('with-claim'), 'b.yaml': namespace('without'), 'c.yaml': map('stays') })
    const spec = {
      storageClassName: 'none',
      accessModes: ['ReadWriteOnce'],
      resources: { requests: { storage: '1Gi' } },
    }
    await ground.create(keyOf('PersistentVolumeClaim', 'theirs', 'with-claim'), { metadata: { name: 'theirs' }, spec })
    await ground.create(keyOf('ConfigMap', 'theirs', 'without'), { metadata: { name: 'theirs' } })
    const { reasons } = await pod.bring({ 'c.yaml': map('stays') })
    t.match(reasons.get('/Namespace//with-claim')?.text, lost)
    t.match(reasons.get('/Namespace//without')?.text, /with it go 1 ConfigMap: ConfigMap theirs$/)
  })

  await t.test('what holds a namespace, and other objects, that are being deleted', async (t) => {
    const pod = await start('held', { prune_confirm: [], prune_limit: '100%', prune_timeout: '2s' })
    const beside = 'metadata: { name: inside, namespace: ending }'
    const inside = `apiVersion: v1\nkind: ConfigMap\n${beside}\n`
    const files = { 'a.yaml': namespace('ending'), 'b.yaml': map('holding'), 'd.yaml': map('other') }
    await pod.bring(files)
    const [ending, holding] = [keyOf('Namespace', 'ending', ''), keyOf('ConfigMap', 'holding', 'held')]
    await ground.merge(holding, { metadata: { finalizers: ['example.com/backup'] } })
    for (const key of [ending, holding]) await ground.client.json('DELETE', ground.path(key))
    const say = async (type: string, message: string) => {
      const condition = { type, status: 'True', reason: 'Said', message, lastTransitionTime: new Date().toISOString() }
      await ground.merge(ending, { status: { conditions: [condition] } }, 'controller', 'status')
    }
    await say('NamespaceDeletionDiscoveryFailure', 'Discovery failed: metrics.k8s.io/v1beta1')
    const held = /^it is being deleted: Discovery failed: metrics\.k8s\.io/
    const first = await pod.bring(files)
    t.match(first.ends.ending, { problem: { kind: 'busy', text: held } })
    t.match(first.ends.holding, { problem: { text: 'it is being deleted: it has finalizers: example.com/backup' } })
    const other = new Pod(ground, { projectId: ++sources, block: { default_namespace: 'held' } })
    const refused = await other.bring({ 'a.yaml': inside })
    t.match(refused.ends.inside, { problem: { text: /because it is being terminated: Discovery failed: metrics/ } })
    await say('NamespaceFinalizersRemaining', 'finalizers remaining: example.com/backup in 1 resource instances')
    const next = await pod.bring(files)
    t.match(next.ends.ending, { problem: { text: /^it is being deleted: finalizers remaining: example\.com\/backup/ } })
    const pruned = await pod.bring({ 'd.yaml': files['d.yaml'] })
    t.match(pruned.reasons.get('/Namespace//ending')?.text, /^it is being deleted: finalizers remaining/)
    await ground.merge(keyOf('ConfigMap', 'other', 'held'), { metadata: { finalizers: ['example.com/late'] } })
    const { entries } = await pod.bring({ 'c.yaml': map('last') })
    t.match(entries.get('/ConfigMap/held/other')?.reason, /not gone after 2 s: it has finalizers: example\.com\/late$/)
  })
})
