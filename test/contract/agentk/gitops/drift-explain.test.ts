import t from 'tap'
import type { ApiLane } from '../../../../src/agentk/cluster/background-requests.ts'
import { mayBeScaled } from '../../../../src/agentk/modules/gitops/drift/suspect.ts'
import { entriesOf } from '../../../../src/agentk/modules/gitops/live/managed-fields.ts'
import { pathText } from '../../../../src/agentk/modules/gitops/live/managed-path.ts'
import type { ObjectTree } from '../../../../src/agentk/modules/gitops/manifests/manifest.ts'
import type { ObjectKey } from '../../../../src/kubernetes/key.ts'
import { eventually } from '../../../support/eventually.ts'
import { DriftSide, full } from './drift-side.ts'
import { deployment, Ground, keyOf, skip } from './ground.ts'
import { startMutatingWebhook } from './mutating-webhook.ts'

/** Comparison of live objects with Git on a real API server: what differs, and what does not. */

const web = '.spec.template.spec.containers[name="web"]'
const service = (name: string): ObjectTree => ({
  apiVersion: 'v1',
  kind: 'Service',
  metadata: { name, namespace: 'shop' },
  spec: { selector: { app: 'x' }, ports: ['a', 'b'].map((one, i) => ({ name: one, port: 80 + i })) },
})

t.test('a comparison', { skip, timeout: 300_000 }, async (t) => {
  const ground = await Ground.start(t)
  await ground.create(keyOf('Namespace', 'shop', ''), { metadata: { name: 'shop' } })
  const side = new DriftSide(ground)
  const inWeb = (fields: object) => ({ spec: { template: { spec: { containers: [{ name: 'web', ...fields }] } } } })

  await t.test('what others write beside Git is no drift, and asks for no comparison', async (t) => {
    const harmless: Record<string, (key: ObjectKey) => Promise<unknown>> = {
      nothing: async () => undefined,
      status: (key) => ground.merge(key, { status: { observedGeneration: 9 } }, 'kcm', 'status'),
      'a label beside ours': (key) => side.edit(key, { metadata: { labels: { mine: 'x' } } }, 'kubectl-label'),
      'a restart': (key) =>
        side.edit(key, { spec: { template: { metadata: { annotations: { 'tool.example/restartedAt': 'now' } } } } }),
      'a field of a controller': (key) =>
        side.edit(key, { spec: { template: { spec: { hostNetwork: true } } } }, 'controller'),
      'an item of a controller': (key) => side.edit(key, inWeb({ env: [{ name: 'X', value: 'y' }] }), 'controller'),
      'the same value again': (key) => side.edit(key, { spec: { replicas: 2 } }),
      'the same quantity, as it is stored': (key) => side.edit(key, inWeb({ resources: { limits: { cpu: '1' } } })),
      'another who applies the same': (key) =>
        ground.apply(key, deployment(key.name, { replicas: 2, selector: { matchLabels: { app: key.name } } }), 'other'),
    }
    for (const [i, [about, change]] of Object.entries(harmless).entries()) {
      const applied = await side.applyDeployment(`harmless-${i}`)
      await side.nextSecond()
      await change(applied.key)
      t.strictSame(await side.drift(applied), ['inOrder'], about)
      for (const isKnown of [true, false])
        t.strictSame(await side.reasons(applied, isKnown), [], `${about}: ${isKnown}`)
    }
  })

  await t.test('nulls, in maps and in lists, and empty values are no drift', async (t) => {
    const applied = await side.applyDeployment('nulls', {
      spec: { revisionHistoryLimit: null, strategy: null, minReadySeconds: 0 },
      container: { resources: { limits: null }, env: [{ name: 'A', value: null }], command: null, args: [] },
      pod: { nodeSelector: null, tolerations: null, securityContext: {}, volumes: [{ name: 'v', emptyDir: {} }] },
    })
    t.strictSame(await side.drift(applied), ['inOrder'])
    t.strictSame(await side.reasons(applied), [])
  })

  await t.test('each kind of change', async (t) => {
    const D = (
      about: string,
      change: (key: ObjectKey) => Promise<unknown>,
      drift: string[],
      parts?: Parameters<typeof full>[1],
    ) => [about, (name: string) => side.applyDeployment(name, parts), change, drift] as const
    const M = (about: string, change: (key: ObjectKey) => Promise<unknown>, drift: string[]) =>
      [about, (name: string) => side.applyMap(name), change, drift] as const
    const put = (key: ObjectKey, change: Parameters<DriftSide['put']>[2]) => side.put(key, 'first', change)
    const cases = [
      D('a value', (key) => side.edit(key, inWeb({ image: 'nginx:2' })), [
        `changed ${web}.image "nginx:1" -> "nginx:2" by kubectl-edit`,
      ]),
      D('a quantity', (key) => side.edit(key, inWeb({ resources: { limits: { cpu: '2' } } })), [
        `changed ${web}.resources.limits.cpu "1" -> "2" by kubectl-edit`,
      ]),
      D(
        'an item',
        (key) => side.patch(key, 'json', 'first', [{ op: 'remove', path: '/spec/template/spec/containers/0/env/0' }]),
        [`missing ${web}.env[name="A"] {"name":"A","value":"A"} -> - by unknown`],
      ),
      D(
        'a port, which is a key',
        (key) =>
          side.patch(key, 'json', 'first', [
            { op: 'replace', path: '/spec/template/spec/containers/0/ports/0/containerPort', value: 81 },
          ]),
        [`missing ${web}.ports[containerPort=80,protocol="TCP"] {"containerPort":80,"protocol":"TCP"} -> - by unknown`],
      ),
      D('order of a list by key', (key) => put(key, (live) => live.spec.template.spec.containers[0].env.reverse()), [
        `reordered ${web}.env [{"name":"A"},{"name":"B"}] -> [{"name":"B"},{"name":"A"}] by unknown`,
      ]),
      D(
        'order of a list without keys',
        (key) => put(key, (live) => live.spec.template.spec.containers[0].args.reverse()),
        [`reordered ${web}.args ["a","b"] -> ["b","a"] by first`],
      ),
      D(
        'a map that is one value',
        (key) => side.edit(key, { spec: { template: { spec: { nodeSelector: { c: 'd' } } } } }),
        [
          '.spec.template.spec.nodeSelector'.replace(/^/, 'changed ') +
            ' {"a":"b"} -> {"a":"b","c":"d"} by kubectl-edit',
        ],
        { pod: { nodeSelector: { a: 'b' } } },
      ),
      D(
        'a field that goes with another',
        (key) => side.patch(key, 'merge', 'first', { spec: { strategy: { type: 'Recreate', rollingUpdate: null } } }),
        [
          'changed .spec.strategy.type "RollingUpdate" -> "Recreate" by first',
          'missing .spec.strategy.rollingUpdate.maxSurge 1 -> - by unknown',
        ],
        { spec: { strategy: { type: 'RollingUpdate', rollingUpdate: { maxSurge: 1 } } } },
      ),
      D(
        'fields that a person adds',
        (key) =>
          side.edit(key, {
            metadata: { labels: { mine: 'x' } },
            spec: {
              paused: true,
              template: {
                spec: {
                  hostNetwork: true,
                  containers: [
                    { name: 'web', env: [{ name: 'X', value: 'y' }] },
                    { name: 'side', image: 'x' },
                  ],
                },
              },
            },
          }),
        [
          'added .spec.paused - -> true by kubectl-edit',
          `added ${web}.env[name="X"] - -> {"name":"X","value":"y"} by kubectl-edit`,
          `added ${web.replace('web', 'side')} - -> {"name":"side","image":"x","resources":{},"terminationMessagePath":"/dev/termination-log","terminationMessagePolicy":"File","imagePullPolicy":"Always"} by kubectl-edit`,
          'added .spec.template.spec.hostNetwork - -> true by kubectl-edit',
        ],
      ),
      M('a key of data', (key) => side.edit(key, { data: { a: null, z: '1' } }), [
        'missing .data.a "1" -> - by unknown',
        'added .data.z - -> "1" by kubectl-edit',
      ]),
      M('all of data', (key) => side.patch(key, 'json', 'first', [{ op: 'remove', path: '/data' }]), [
        'missing .data.a "1" -> - by unknown',
        'missing .data.b "2" -> - by unknown',
      ]),
      M('our marks', (key) => side.edit(key, { metadata: { labels: { 'agent.gitlab.com/inventory': null } } }), [
        'missing .metadata.labels.agent.gitlab.com/inventory "42-7" -> - by unknown',
      ]),
      M('deleted', (key) => side.delete(key), ['gone all - -> - by unknown']),
      M(
        'a value and our own entry, written in one',
        (key) =>
          put(key, (live) => {
            live.data.a = '9'
          }),
        ['changed .data.a "1" -> "9" by first'],
      ),
    ] as const
    for (const [i, [about, make, change, drift]] of cases.entries()) {
      const applied = await make(`kind-${i}`)
      await side.nextSecond()
      await change(applied.key)
      t.strictSame((await side.drift(applied)).toSorted(), drift.toSorted(), about)
      t.notSame(await side.reasons(applied), [], about)
    }
  })

  await t.test('order in a kind without generation, and a forged entry: only a comparison finds them', async (t) => {
    const ports = await side.apply(keyOf('Service', 'ports'), service('ports'))
    await side.put(ports.key, 'first', (live) => live.spec.ports.reverse())
    t.strictSame(await side.drift(ports), [
      'reordered .spec.ports [{"port":80,"protocol":"TCP"},{"port":81,"protocol":"TCP"}] -> [{"port":81,"protocol":"TCP"},{"port":80,"protocol":"TCP"}] by unknown',
    ])
    const forged = await side.applyMap('forged')
    const before = (await ground.get(forged.key)).metadata.managedFields
    await side.edit(forged.key, { data: { a: '9' } })
    await side.patch(forged.key, 'json', 'first', [{ op: 'replace', path: '/metadata/managedFields', value: before }])
    t.strictSame(await side.reasons(forged), [])
    t.strictSame(await side.drift(forged), ['changed .data.a "1" -> "9" by unknown'])
  })

  await t.test('made again, and being deleted', async (t) => {
    const applied = await side.applyMap('again')
    await side.delete(applied.key)
    await ground.create(applied.key, applied.object, 'kubectl-create')
    const [uid, ...others] = await side.drift(applied)
    t.match(uid, new RegExp(`^changed \\.metadata\\.uid "${applied.reference.uid}" -> "[0-9a-f-]{36}" by unknown$`))
    t.strictSame(others, [])
    const ending = await side.applyMap('ending')
    await side.edit(ending.key, { metadata: { finalizers: ['example.com/x'] } })
    await side.delete(ending.key)
    t.strictSame([await side.drift(ending), await side.reasons(ending)], [['beingDeleted'], 'beingDeleted'])
    await side.patch(ending.key, 'merge', 'x', { metadata: { finalizers: null } })
    t.strictSame([await side.drift(ending), await side.reasons(ending)], [['gone all - -> - by unknown'], 'gone'])
  })

  await t.test('it writes nothing, in two calls', async (t) => {
    const applied = await side.applyDeployment('two-calls')
    await side.edit(applied.key, inWeb({ image: 'nginx:2' }))
    const { resourceVersion } = (await ground.get(applied.key)).metadata
    ground.asked.length = 0
    await side.drift(applied)
    t.strictSame(
      ground.asked.map(({ method, path }) => [method, path.includes('dryRun=All')]),
      [
        ['PATCH', true],
        ['GET', false],
      ],
    )
    t.equal((await ground.get(applied.key)).metadata.resourceVersion, resourceVersion)
  })

  await t.test('others write between the two calls', async (t) => {
    const applied = await side.applyDeployment('raced')
    await side.edit(applied.key, inWeb({ image: 'nginx:2' }))
    let count = 0
    const racing = (races: number, race: (i: number) => Promise<unknown>): ApiLane => ({
      json: async (method, ...rest) => {
        if (method === 'GET' && count++ < races) await race(count)
        return await ground.lanes.lane('scan').json(method, ...rest)
      },
    })
    const calls = async (lane: ApiLane) => {
      count = 0
      side.lane = lane
      ground.asked.length = 0
      const found = await side.drift(applied)
      side.lane = ground.lanes.lane('scan')
      return [found, ground.asked.length]
    }
    const image = `changed ${web}.image "nginx:1" -> "nginx:2" by kubectl-edit`
    const status = (i: number) => ground.merge(applied.key, { status: { observedGeneration: 20 + i } }, 'kcm', 'status')
    t.strictSame(await calls(racing(9, status)), [[image], 2], 'the status does not matter')
    const spec = (i: number) => side.edit(applied.key, { spec: { minReadySeconds: i } }, `robot-${i}`)
    t.strictSame(await calls(racing(1, spec)), [[image], 4])
    const busy = 'notComparable: busy: others have changed it 3 times while it was compared'
    t.strictSame(await calls(racing(9, (i) => spec(i + 10))), [[busy], 6])
  })

  await t.test('two changes within one second: the second value', async (t) => {
    const applied = await side.applyMap('twice')
    const patch = (a: string) => side.edit(applied.key, { data: { a } })
    const ownersOf = async () => JSON.stringify((await ground.get(applied.key)).metadata.managedFields)
    const again = await eventually(async () => {
      const second = await side.nextSecond()
      await patch('8')
      const before = await ownersOf()
      const found = await side.explain(applied)
      await patch('9')
      if ((await ownersOf()) !== before || (await side.serverTime()) !== second) return false // a slow machine
      t.match(found, { kind: 'drifted', differences: { listed: [{ after: '"8"' }] } })
      return 'again' in found && found.again
    })
    const newest = entriesOf(await ground.get(applied.key)).find((entry) => entry.manager === 'kubectl-edit')
    t.equal(again, Date.parse(String(newest?.time)) + 1000)
    await side.nextSecond()
    const found = await side.explain(applied)
    t.match(found, { kind: 'drifted', differences: { listed: [{ after: '"9"' }] } })
    t.notOk('again' in found)
  })

  await t.test('a webhook that came later would change it; drift beside it is drift', async (t) => {
    const [applied, changed] = [await side.applyDeployment('hooked-1'), await side.applyDeployment('hooked-2')]
    // biome-ignore lint/suspicious/noExplicitAny: the shape is the API server's
    const rewrite = ({ metadata, spec }: any) => [
      ...(spec.template.spec.containers[0].image.startsWith('ecr/')
        ? []
        : [{ op: 'replace', path: '/spec/template/spec/containers/0/image', value: 'ecr/nginx:1' } as const]),
      ...(metadata.labels?.team ? [{ op: 'remove', path: '/metadata/labels/team' } as const] : []),
      { op: 'add', path: '/metadata/annotations/random', value: String(Math.random()) } as const,
    ]
    const remove = await startMutatingWebhook(t, ground, { name: 'rewrite', resource: 'deployments', mutate: rewrite })
    const would = [
      'wouldChange',
      'changed .metadata.labels.team - -> "a" by unknown',
      `changed ${web}.image "ecr/nginx:1" -> "nginx:1" by unknown`,
    ]
    await eventually(async () => (await side.drift(applied)).includes('wouldChange')) // it has to be known first
    t.strictSame(await side.drift(applied), would)
    t.strictSame(await side.reasons(applied), [])
    await ground.merge(changed.key, { spec: { replicas: 5 } }, 'kubectl', 'scale') // a Scale has no webhook
    t.strictSame(await side.drift(changed), ['changed .spec.replicas 2 -> 5 by kubectl/scale'])
    // applied while it was there
    const later = await side.applyDeployment('hooked-3')
    t.strictSame(await side.drift(later), ['inOrder'])
    await remove()
    await eventually(async () => !(await side.drift(applied)).includes('wouldChange'))
  })

  await t.test('an autoscaler owns the replicas', async (t) => {
    const applied = await side.applyDeployment('scaled')
    await ground.create(keyOf('HorizontalPodAutoscaler', 'scaled', 'shop', 'autoscaling'), {
      metadata: { name: 'scaled' },
      spec: { maxReplicas: 9, scaleTargetRef: { apiVersion: 'apps/v1', kind: 'Deployment', name: 'scaled' } },
    })
    const scale = (by: string, replicas: number) => ground.merge(applied.key, { spec: { replicas } }, by, 'scale')
    await scale('kube-controller-manager', 7)
    t.strictSame([await side.drift(applied), await side.reasons(applied)], [['inOrder'], ['scaled']])
    await scale('kubectl', 5)
    t.match(await side.explain(applied), { kind: 'inOrder', hasLostFields: false })
    t.equal(mayBeScaled(await side.judge(applied)), true)
    // Git leaves them out, and nobody owns them: `scale` leaves no entry
    const { replicas: _, ...spec } = full('left').spec as Record<string, unknown>
    const left = await side.apply(keyOf('Deployment', 'left', 'shop', 'apps'), { ...full('left'), spec })
    await ground.merge(left.key, { spec: { replicas: 5 } }, 'kubectl', 'scale')
    t.strictSame(await side.drift(left), ['inOrder'])
    t.strictSame(await side.reasons(left), ['order'])
    t.equal(mayBeScaled(await side.judge(left)), true)
  })

  await t.test('fields that Git has lost at the same value, and those that are ignored', async (t) => {
    const applied = await side.applyDeployment('lost')
    await side.edit(applied.key, { spec: { replicas: 3 } })
    await side.edit(applied.key, { spec: { replicas: 2 } })
    t.match(await side.explain(applied), { kind: 'inOrder', hasLostFields: true })
    const asked = new Map<string, readonly string[]>()
    const { options } = side
    side.options = {
      ...options,
      ignoredBy: (path, managers) => {
        asked.set(pathText(path), managers)
        return path.at(-1) === 'f:image' ? 'paths: [image]' : undefined
      },
    }
    await side.edit(applied.key, inWeb({ image: 'nginx:2', env: [{ name: 'A', value: '7' }] }))
    const found = await side.explain(applied)
    side.options = options
    t.match(found, {
      kind: 'drifted',
      differences: { listed: [{ path: `${web}.env[name="A"].value` }], more: 0 },
      ignored: { listed: [{ path: `${web}.image`, rule: 'paths: [image]', after: '"nginx:2"' }], more: 0 },
    })
    t.strictSame(asked.get(`${web}.image`), ['kubectl-edit'])
  })
})
