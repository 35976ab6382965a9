import t from 'tap'
import type { JsonAnswer } from '../../../../src/agentk/cluster/api-client.ts'
import type { ObjectTree } from '../../../../src/agentk/modules/gitops/manifests/manifest.ts'
import { eventually } from '../../../support/eventually.ts'
import { widgetDefinition } from '../../../support/widget-definition.ts'
import { ProjectKas, startGitops } from './gitops-side.ts'
import { configMap, deployment, Ground, keyOf, skip } from './ground.ts'
import { Pod } from './pod.ts'

/**
 * A failure in a round is reported for its object and stops no other object. After the fix the whole commit is applied.
 */

const text = (object: ObjectTree) => JSON.stringify(object)
const after = (kind: string, name: string) => ({
  annotations: { 'config.kubernetes.io/depends-on': `/namespaces/shop/${kind}/${name}` },
})
const widget = { apiVersion: 'example.com/v1', kind: 'Widget', metadata: { name: 'one' }, spec: { size: 1 } }
const broken: Readonly<Record<string, { text: string; line: number; problem: RegExp }>> = {
  'is no YAML': { text: 'kind: [', line: 1, problem: /./ },
  'has no name': { text: 'apiVersion: v1\nkind: ConfigMap\nmetadata: {}\n', line: 1, problem: /name/ },
  'is twice the same': {
    text: `${text(configMap('twice', {}))}\n---\n${text(configMap('twice', {}))}\n`,
    line: 3,
    problem: /twice|same/,
  },
  'is elsewhere': {
    text: text({ ...configMap('x', {}), metadata: { name: 'x', namespace: 'elsewhere' } }),
    line: 1,
    problem: /elsewhere|namespaces/,
  },
  'depends on itself': { text: text(configMap('x', {}, after('ConfigMap', 'x'))), line: 1, problem: /./ },
  'brings our marks': {
    text: text(configMap('x', {}, { labels: { 'agent.gitlab.com/inventory': '42-1' } })),
    line: 1,
    problem: /agent\.gitlab\.com\/inventory/,
  },
  'is larger than an API server takes': {
    text: text(configMap('x', { large: 'x'.repeat(3.1 * 1024 * 1024) })),
    line: 1,
    problem: /MiB|larger|bytes/,
  },
}

t.test('when something fails', { skip, timeout: 180_000 }, async (t) => {
  const ground = await Ground.start(t)
  for (const name of ['shop', 'gitops']) await ground.create(keyOf('Namespace', name, ''), { metadata: { name } })
  const value = async (name: string) => (await ground.get(keyOf('ConfigMap', name)))?.data?.value
  const resourceVersion = async (name: string) => (await ground.get(keyOf('ConfigMap', name)))?.metadata.resourceVersion

  await t.test('a file that cannot be applied refuses the commit by file and line: the last one holds', async (t) => {
    const pod = new Pod(ground, { projectId: 1n, block: { namespaces: ['shop'] } })
    const files = { 'a.yaml': text(configMap('held', { value: '1' })), 'b.yaml': text(configMap('left', {})) }
    await pod.bring(files)
    const before = await resourceVersion('held')
    for (const [what, { text: bad, line, problem }] of Object.entries(broken)) {
      const result = await pod.round({ 'a.yaml': text(configMap('held', { value: '2' })), 'dir/bad.yaml': bad })
      t.match(result, { kind: 'refused', problems: [{ file: 'dir/bad.yaml', line, text: problem }] }, what)
      t.equal(await resourceVersion('held'), before, what)
      t.ok(await ground.get(keyOf('ConfigMap', 'left')), what)
    }
    t.match((await pod.bring({ 'a.yaml': files['a.yaml'] })).pruned, [{ name: 'left' }])
  })

  await t.test('an object that is refused is told, what depends on it waits, the others are applied', async (t) => {
    const admin = 'admissionregistration.k8s.io'
    const hook = keyOf('ValidatingWebhookConfiguration', 'dead', '', admin)
    await ground.create(hook, {
      metadata: { name: 'dead' },
      webhooks: [
        {
          name: 'dead.example.com',
          admissionReviewVersions: ['v1'],
          sideEffects: 'None',
          timeoutSeconds: 1,
          clientConfig: { url: 'https://127.0.0.1:1/' },
          objectSelector: { matchLabels: { asked: 'webhook' } },
          rules: [{ apiGroups: [''], apiVersions: ['v1'], operations: ['*'], resources: ['configmaps'] }],
        },
      ],
    })
    const pod = new Pod(ground, { projectId: 2n, block: { conflicts: 'fail' } })
    await pod.bring({
      'fine.json': text(configMap('fine', {})),
      'owned.json': text(configMap('owned', { a: '1' })),
      'goes.json': text(configMap('goes', {})),
    })
    await ground.merge(keyOf('ConfigMap', 'owned'), { data: { a: 'theirs' } }, 'kubectl-edit')
    await ground.create(keyOf('ConfigMap', 'foreign'), configMap('foreign', {}))
    const bad = {
      owned: configMap('owned', { a: '2' }),
      foreign: configMap('foreign', { a: '2' }),
      'Bad.Name_': configMap('Bad.Name_', {}),
      typo: deployment('typo', { replica: 1 }),
      wrong: deployment('wrong', { replicas: 'two' }),
      asked: configMap('asked', {}, { labels: { asked: 'webhook' } }),
      nowhere: { ...configMap('nowhere', {}), metadata: { name: 'nowhere', namespace: 'nowhere' } },
      large: configMap('large', { a: 'x'.repeat(1.1 * 1024 * 1024) }),
    }
    const dependent = configMap('dependent', {}, after('ConfigMap', 'asked'))
    const files = Object.fromEntries(Object.entries(bad).map(([name, object]) => [`${name}.json`, text(object)]))
    const fine = { 'fine.json': text(configMap('fine', { value: 'new' })), 'dependent.json': text(dependent) }
    const { ends, pruned } = await pod.bring({ ...files, ...fine })
    const failed = (kind: string) => ({ kind: 'failed', problem: { kind } })
    t.match(ends, {
      owned: failed('conflict'),
      foreign: failed('foreign'),
      'Bad.Name_': failed('invalid'),
      typo: failed('invalid'),
      wrong: failed('invalid'),
      asked: failed('webhook'),
      nowhere: failed('absent'),
      large: failed('invalid'),
      dependent: { kind: 'waits', text: /ConfigMap shop\/asked has failed/ },
      fine: { kind: 'applied' },
    })
    t.strictSame(pruned, [], 'nothing goes before all of it is there')
    t.ok(await ground.get(keyOf('ConfigMap', 'goes')))
    t.equal((await ground.get(keyOf('ConfigMap', 'owned'))).data.a, 'theirs')

    // the webhook is deleted and the commit is fixed
    await ground.client.json('DELETE', ground.path(hook))
    const mended = { ...fine, 'owned.json': text(configMap('owned', {})), 'asked.json': text(bad.asked) }
    const next = await eventually(async () => {
      const again = await pod.bring(mended)
      return again.kinds.asked === 'applied' && again
    })
    t.match(next.kinds, { fine: 'unchanged', dependent: 'applied' })
    t.strictSame(
      next.pruned.map(({ name }) => name),
      ['goes'],
    )
  })

  await t.test('an account without the right', async (t) => {
    const block = { access_as: { service_account: { namespace: 'shop', name: 'deployer' } } }
    const { ends } = await new Pod(ground, { projectId: 3n, block }).bring({ 'a.json': text(configMap('denied', {})) })
    t.match(ends, { denied: { kind: 'failed', problem: { text: /forbidden|cannot be read/ } } })
    t.equal(await ground.get(keyOf('ConfigMap', 'denied')), undefined)
  })

  await t.test(
    'a kind that nobody serves yet: the others go on, nothing is pruned, and it comes when it is',
    async (t) => {
      const project = new ProjectKas(4n)
      const source = { id: 'platform/shop', default_namespace: 'shop', prune_propagation_policy: 'background' } as const
      const { stop } = await startGitops(t, ground, project, { manifest_projects: [source] })
      project.push({
        'a.json': text(configMap('beside', { value: '1' })),
        'b.json': text(configMap('leaves', { value: '1' })),
      })
      await eventually(async () => (await value('leaves')) === '1' && (await value('beside')) === '1')
      project.push({ 'a.json': text(configMap('beside', { value: '2' })), 'w.json': text(widget) })
      const status = async () =>
        JSON.parse((await ground.get(keyOf('ConfigMap', 'gitops-42-4-sync', 'gitops'))).data.status)
      await eventually(async () => (await status()).phase === 'Failing')
      t.equal(await value('beside'), '2')
      t.equal(await value('leaves'), '1')
      await ground.create(
        keyOf('CustomResourceDefinition', widgetDefinition.metadata.name, '', 'apiextensions.k8s.io'),
        widgetDefinition,
      )
      await eventually(async () => (await status()).phase === 'Synced', { timeoutMs: 60_000 })
      await ground.readKinds()
      t.match(await ground.get(keyOf('Widget', 'one', 'shop', 'example.com')), { spec: { size: 1 } })
      t.equal(await value('leaves'), undefined)
      await stop()
    },
  )

  await t.test('an API server that asks for patience, or cannot', async (t) => {
    const answers: JsonAnswer[] = []
    const isApply = (method: string, path: string) => method === 'PATCH' && path.includes('/configmaps/')
    const answer = (method: string, path: string) => (isApply(method, path) ? answers.shift() : undefined)
    const pod = new Pod(ground, { projectId: 5n, answer })
    const files = Object.fromEntries(
      ['busy-a', 'busy-b', 'busy-c'].map((name) => [`${name}.json`, text(configMap(name, {}))]),
    )
    const { width } = pod
    for (let times = 0; times < 3; times++) answers.push({ status: 429, body: {}, retryAfterMs: 20 })
    const patient = await pod.bring(files)
    t.match(patient.kinds, { 'busy-a': 'applied', 'busy-b': 'applied', 'busy-c': 'applied' })
    t.ok(pod.width < width, 'it goes slower')
    const changed = Object.fromEntries(
      Object.keys(files).map((file) => [file, text(configMap(file.slice(0, -5), { a: '1' }))]),
    )
    answers.push({ status: 503, body: { message: 'etcd has no leader' } })
    const partly = await pod.bring(changed)
    const failed = Object.values(partly.ends).filter((end) => end.kind === 'failed')
    t.match(failed, [{ problem: { kind: 'unavailable', text: /etcd has no leader/ } }])
    t.equal(failed.length, 1)
    const { kinds } = await pod.bring(changed)
    t.strictSame(Object.values(kinds).sort(), ['applied', 'unchanged', 'unchanged'])
  })

  await t.test('an inventory that cannot be read or written: nothing is made', async (t) => {
    for (const [projectId, refused] of [
      [6n, 'GET'],
      [7n, 'POST'],
    ] as const) {
      const answer = (method: string, path: string) =>
        method === refused && path.startsWith('/api/v1/namespaces/gitops/') ? { status: 500, body: {} } : undefined
      const pod = new Pod(ground, { projectId, answer })
      await t.rejects(pod.bring({ 'a.json': text(configMap(`unwritten-${refused.toLowerCase()}`, {})) }), {
        code: 'UNREACHABLE',
      })
      t.equal(await ground.get(keyOf('ConfigMap', `unwritten-${refused.toLowerCase()}`)), undefined)
    }
  })
})
