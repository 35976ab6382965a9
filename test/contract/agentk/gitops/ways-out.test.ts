import t from 'tap'
import { Ground, keyOf, skip } from './ground.ts'
import { Pod } from './pod.ts'

/** What stands in a live object, and no manifest has said it, does not keep a commit out. */

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
      const { kinds } = await pod.bring({ 'a.yaml': workload(kind, `${changed}\n  ${service}`) })
      t.equal(kinds.web, 'applied', kind)
      const live = await ground.get(keyOf(kind, 'web', namespace, 'apps'))
      if (kind !== 'DaemonSet') t.strictSame(Object.keys(live.spec[field]), ['type'], kind) // there both may stand
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
      const { ends } = await pod.bring({ 'a.yaml': `${service('[{ name: http, port: 80 }]')}\n# next\n` })
      t.match(ends.svc, { kind: 'applied' }, manager)
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
    t.match(ends.svc, { kind: 'failed', problem: { text: /conflicts: fail leaves that/ } })
    t.match((await ground.get(keyOf('Service', 'svc', 'careful'))).spec.ports, [{ port: 83 }])
  })
})
