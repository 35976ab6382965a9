import t from 'tap'
import { Ground, keyOf, skip } from './ground.ts'
import { Pod } from './pod.ts'

/** A field in the live object that no manifest sets does not block a commit. */

const workload = (kind: string, spec: string, volume = 'name: a') => `
apiVersion: apps/v1
kind: ${kind}
metadata: { name: web }
spec:
  ${spec}
  selector: { matchLabels: { app: web } }
  template:
    metadata: { labels: { app: web } }
    spec: { containers: [{ name: a, image: a }], volumes: [{ ${volume} }] }
`
const service = (ports: string) =>
  `apiVersion: v1\nkind: Service\nmetadata: { name: svc }\nspec: { selector: { app: a }, ports: ${ports} }\n`

t.test('ways out', { skip, timeout: 240_000 }, async (t) => {
  const ground = await Ground.start(t)
  await ground.create(keyOf('Namespace', 'gitops', ''), { metadata: { name: 'gitops' } })
  let sources = 0n
  const start = async (namespace: string, block: object = {}) => {
    await ground.create(keyOf('Namespace', namespace, ''), { metadata: { name: namespace } })
    return new Pod(ground, { projectId: ++sources, block: { default_namespace: namespace, ...block } })
  }

  await t.test('strategies after one whose values were defaulted', async (t) => {
    const cases = [
      ['Deployment', 'strategy: { type: Recreate }', 'strategy'],
      ['StatefulSet', 'updateStrategy: { type: OnDelete }', 'updateStrategy'],
      ['DaemonSet', 'updateStrategy: { type: OnDelete }', 'updateStrategy'],
    ] as const
    for (const [kind, changed, field] of cases) {
      const namespace = `strategy-${kind.toLowerCase()}`
      const pod = await start(namespace)
      const service = kind === 'StatefulSet' ? 'serviceName: a' : ''
      await pod.bring({ 'a.yaml': workload(kind, service) })
      const { kinds, notes } = await pod.bring({ 'a.yaml': workload(kind, `${changed}\n  ${service}`) })
      t.equal(kinds.web, 'applied', kind)
      t.strictSame(notes, [], 'nobody had changed it')
      const live = await ground.get(keyOf(kind, 'web', namespace, 'apps'))
      if (kind !== 'DaemonSet') t.strictSame(Object.keys(live.spec[field]), ['type'], kind) // a DaemonSet may have both
      t.match((await pod.bring({ 'a.yaml': workload(kind, service) })).kinds, { web: 'applied' }, 'and back')
    }
  })

  await t.test('a volume that was defaulted to an empty folder becomes another one', async (t) => {
    const pod = await start('volume')
    await pod.bring({ 'a.yaml': workload('Deployment', '') })
    const changed = workload('Deployment', '', 'name: a, configMap: { name: b }')
    t.match((await pod.bring({ 'a.yaml': changed })).kinds, { web: 'applied' })
    const { spec } = await ground.get(keyOf('Deployment', 'web', 'volume', 'apps'))
    t.match(spec.template.spec.volumes, [{ name: 'a', configMap: { name: 'b' }, emptyDir: undefined }])
  })

  await t.test('a port that was changed by hand is as Git has it', async (t) => {
    for (const manager of ['kubectl-edit', 'kubectl-patch', 'k9s', 'headlamp']) {
      const pod = await start(`port-${manager}`)
      const key = keyOf('Service', 'svc', `port-${manager}`)
      await pod.bring({ 'a.yaml': service('[{ name: http, port: 80 }]') })
      await ground.merge(
        key,
        { spec: { ports: [{ name: 'http', port: 83 }] }, metadata: { labels: { own: 'x' } } },
        manager,
      )
      const { ends, notes } = await pod.bring({ 'a.yaml': `${service('[{ name: http, port: 80 }]')}\n# next\n` })
      t.match(ends.svc, { kind: 'applied' }, manager)
      t.strictSame(notes, [`Service port-${manager}/svc: ${manager} had changed spec.ports: it is as in Git again`])
      t.strictSame((await pod.bring({ 'a.yaml': service('[{ name: http, port: 80 }]') })).notes, [], 'said once')
      const live = await ground.get(key)
      t.match(live.spec.ports, [{ name: 'http', port: 80 }], manager)
      t.equal(live.spec.ports.length, 1, manager)
      t.equal(live.metadata.labels.own, 'x', 'what is not in the way stays')
    }
  })

  await t.test('what is wrong in Git stays refused, and conflicts: fail leaves what others have changed', async (t) => {
    const pod = await start('wrong')
    await pod.bring({ 'a.yaml': service('[{ name: http, port: 80 }]') })
    const wrong = await pod.bring({ 'a.yaml': service('[{ name: http, port: 80 }, { name: http, port: 81 }]') })
    t.match(wrong.ends.svc, { kind: 'failed', problem: { kind: 'invalid', text: /Duplicate value/ } })
    const careful = await start('careful', { conflicts: 'fail' })
    await careful.bring({ 'a.yaml': service('[{ name: http, port: 80 }]') })
    await ground.merge(
      keyOf('Service', 'svc', 'careful'),
      { spec: { ports: [{ name: 'http', port: 83 }] } },
      'kubectl-edit',
    )
    const { ends } = await careful.bring({ 'a.yaml': service('[{ name: http, port: 80 }]') })
    const text =
      /Duplicate value.*; kubectl-edit has changed spec\.ports, and conflicts: fail leaves that: force undoes it$/
    t.match(ends.svc, { kind: 'failed', problem: { text } })
    t.match((await ground.get(keyOf('Service', 'svc', 'careful'))).spec.ports, [{ port: 83 }])
    const forcing = new Pod(ground, { projectId: sources, block: { default_namespace: 'careful' } })
    const files = { 'a.yaml': service('[{ name: http, port: 80 }]') }
    t.match((await forcing.bring(files)).kinds, { svc: 'applied' })
    t.match((await ground.get(keyOf('Service', 'svc', 'careful'))).spec.ports, [{ port: 80 }])
  })

  await t.test('fields of others are named with conflicts: fail, and force takes them', async (t) => {
    const map = (value: string) => `apiVersion: v1\nkind: ConfigMap\nmetadata: { name: map }\ndata: { a: ${value} }\n`
    const pod = await start('fields', { conflicts: 'fail' })
    await pod.bring({ 'a.yaml': map('one') })
    const key = keyOf('ConfigMap', 'map', 'fields')
    await ground.merge(key, { data: { a: 'theirs' } }, 'kubectl-edit')
    const { ends } = await pod.bring({ 'a.yaml': map('two') })
    const text = 'fields of others, and conflicts: fail leaves them: .data.a (kubectl-edit); force takes them'
    t.match(ends.map, { kind: 'failed', problem: { kind: 'conflict', text } })
    const forcing = new Pod(ground, { projectId: sources, block: { default_namespace: 'fields' } })
    t.match((await forcing.bring({ 'a.yaml': map('two') })).kinds, { map: 'applied' })
    t.match(await ground.get(key), { data: { a: 'two' } })
  })

  await t.test('what another tool has changed is named, with adopt, which takes it over', async (t) => {
    const files = { 'a.yaml': service('[{ name: http, port: 80 }]') }
    const pod = await start('tool')
    await pod.bring(files)
    const key = keyOf('Service', 'svc', 'tool')
    await ground.merge(key, { spec: { ports: [{ name: 'http', port: 83 }] } }, 'terraform')
    const { ends } = await pod.bring({ 'a.yaml': `${files['a.yaml']}\n# next\n` })
    const text = /; terraform has changed spec\.ports: adopt: \[terraform\] takes that over$/
    t.match(ends.svc, { kind: 'failed', problem: { text } })
    const wrong = await pod.bring({ 'a.yaml': service('[{ name: http, port: 80 }, { name: http, port: 81 }]') })
    t.match(
      wrong.ends.svc,
      { problem: { text: /Duplicate value: "http"\]$/ } },
      'what is wrong in Git is nobody else’s',
    )
    const adopting = new Pod(ground, { projectId: sources, block: { default_namespace: 'tool', adopt: ['terraform'] } })
    t.match((await adopting.bring(files)).kinds, { svc: 'applied' })
    t.match((await ground.get(key)).spec.ports, [{ port: 80 }])
  })

  await t.test(
    'where only a new object can have it, the text names replace: allow, which has it made again',
    async (t) => {
      const group = 'ways.example.com'
      const pod = await start('again', { prune_confirm: ['CustomResourceDefinition'] })
      const mode = '{ type: string, x-kubernetes-validations: [{ rule: self == oldSelf, message: it stays so }] }'
      const properties = `{ spec: { type: object, properties: { mode: ${mode}, size: { type: integer, maximum: 9 } } } }`
      const crd = (scope: string) => `
apiVersion: apiextensions.k8s.io/v1
kind: CustomResourceDefinition
metadata: { name: modes.${group} }
spec:
  group: ${group}
  scope: ${scope}
  names: { plural: modes, kind: Mode, singular: mode }
  versions: [{ name: v1, served: true, storage: true, schema: { openAPIV3Schema: { type: object, properties: ${properties} } } }]
`
      const object = (spec: string, annotations = '') =>
        `apiVersion: ${group}/v1\nkind: Mode\nmetadata: { name: a, annotations: { ${annotations} } }\nspec: { ${spec} }\n`
      const files = { 'crd.yaml': crd('Namespaced') }
      await pod.bring({ ...files, 'a.yaml': object('mode: one') })
      const refused = await pod.bring({ ...files, 'a.yaml': object('mode: two') })
      const again = /it stays so; agent\.gitlab\.com\/replace: allow on it has it deleted and made again$/
      t.match(refused.ends.a, { kind: 'failed', problem: { kind: 'invalid', text: again } })
      const wrong = await pod.bring({ ...files, 'a.yaml': object('mode: one, size: 10') })
      t.match(wrong.ends.a, { kind: 'failed', problem: { text: /less than or equal to 9$/ } })
      const replaced = await pod.bring({ ...files, 'a.yaml': object('mode: two', 'agent.gitlab.com/replace: allow') })
      t.match(replaced.kinds, { a: 'applied' })
      await ground.readKinds()
      t.match(await ground.get(keyOf('Mode', 'a', 'again', group)), { spec: { mode: 'two' } })
      // a definition, changed only through Git
      const scoped = await pod.bring({ 'crd.yaml': crd('Cluster'), 'a.yaml': object('mode: two') })
      t.match(scoped.ends[`modes.${group}`], {
        problem: { text: /immutable; take it out of the source, approve the plan/ },
      })
      const map = { 'map.yaml': 'apiVersion: v1\nkind: ConfigMap\nmetadata: { name: stays }\n' }
      const { planDigest } = await pod.bring(map)
      t.match((await pod.bring(map, { approved: planDigest })).pruned.length, 2)
      t.match((await pod.bring({ ...map, 'crd.yaml': crd('Cluster') })).kinds, { [`modes.${group}`]: 'applied' })
    },
  )
})
