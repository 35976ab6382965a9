import { join } from 'node:path'
import t, { type Test } from 'tap'
import { ControlPlane } from '../../../../dev/control-plane/control-plane.ts'
import { AggregatedApis } from '../../../../src/agentk/modules/gitops/live/aggregated-apis.ts'
import type { ClusterKind } from '../../../../src/agentk/modules/gitops/live/cluster-kinds.ts'
import { ownerAnnotation } from '../../../../src/agentk/modules/gitops/manifests/annotations.ts'
import { isBuiltInGroup } from '../../../../src/kubernetes/built-in-groups.ts'
import { conditionStatus } from '../../../../src/kubernetes/conditions.ts'
import { builtIn } from '../../../../src/kubernetes/kind.ts'
import { listAt, textAt } from '../../../../src/kubernetes/object.ts'
import { collectionPath } from '../../../../src/kubernetes/path.ts'
import type { SourceBlock } from '../../../../src/proto/gitops/schema.ts'
import { agentkAccount } from '../../../support/agentk-account.ts'
import { AggregatedApi } from '../../../support/aggregated-api.ts'
import { eventually } from '../../../support/eventually.ts'
import { widgetDefinition } from '../../../support/widget-definition.ts'
import { Ground, keyOf, skip } from './ground.ts'
import { type Files, Pod, type PodOptions } from './pod.ts'

/** Kinds for which another server answers. It stores what it is sent as a dry run, so agentk sends it none. */

const { signal } = new AbortController()
const group = 'other.example.com'
const half = 'half.example.com'
const rbac = 'rbac.authorization.k8s.io'
const timeoutMs = 60_000

const map = (name: string, value: string) =>
  `apiVersion: v1\nkind: ConfigMap\nmetadata: { name: ${name} }\ndata: { value: "${value}" }\n`
const object =
  (apiVersion: string, kind: string) =>
  (name: string, spec: string, annotations = '') =>
    `apiVersion: ${apiVersion}\nkind: ${kind}\nmetadata: { name: ${name}, annotations: { ${annotations} } }\nspec: { ${spec} }\n`
const gadget = object(`${group}/v1`, 'Gadget')
const widget = object('example.com/v1', 'Widget')
const allow = 'agent.gitlab.com/replace: allow'

const answers = `another server answers for ${group}/v1 (APIService v1.${group}), and may store a dry run`
const mayNot = 'agentk may not list APIServices, which rbac.gitops of its chart allows'
const untried = `a new object was not tried, as ${answers}`

/** A refusal of a field, as Kubernetes' library for such servers writes it. */
const refused = (field: string, text: string) => ({
  kind: 'Status',
  apiVersion: 'v1',
  status: 'Failure',
  reason: 'Invalid',
  code: 422,
  message: `Gadget.${group} is invalid: ${field}: ${text}`,
  details: { group, kind: 'Gadget', causes: [{ reason: 'FieldValueInvalid', message: text, field }] },
})

/** A definition whose `spec.fixed` only a new object can have, and whose `spec.size` is at most 9. */
const widgets = {
  ...widgetDefinition,
  spec: {
    ...widgetDefinition.spec,
    versions: [
      { ...widgetDefinition.spec.versions[0], name: 'v0', served: false, storage: false },
      {
        name: 'v1',
        served: true,
        storage: true,
        schema: {
          openAPIV3Schema: {
            type: 'object',
            properties: {
              spec: {
                type: 'object',
                properties: {
                  fixed: { type: 'string', 'x-kubernetes-validations': [{ rule: 'self == oldSelf' }] },
                  size: { type: 'integer', maximum: 9 },
                },
              },
            },
          },
        },
      },
    ],
  },
}
const halfDefinition = {
  ...widgetDefinition,
  metadata: { name: `gadgets.${half}` },
  spec: {
    ...widgetDefinition.spec,
    group: half,
    names: { plural: 'gadgets', kind: 'Gadget', singular: 'gadget' },
    versions: widgetDefinition.spec.versions.map((one) => ({ ...one, name: 'v2' })),
  },
}

t.test('kinds of other servers', { skip, timeout: 300_000 }, async (t) => {
  const controlPlane = new ControlPlane({ assets: process.env.KUBEBUILDER_ASSETS ?? '', parts: 'api' })
  t.teardown(() => controlPlane.stop())
  await controlPlane.start()
  const { admin } = controlPlane
  const ground = await Ground.start(t, controlPlane)

  const { body: served } = await ground.client.json('GET', '/apis')
  const groups = listAt(served, 'groups').map((one) => textAt(one, 'name'))
  t.ok(groups.length > 10)
  t.strictSame(
    groups.filter((one) => !isBuiltInGroup(one)),
    [],
    'the groups of an API server without others are known as its own',
  )

  const api = await AggregatedApi.start(t, admin, group)
  const other = await AggregatedApi.start(t, admin, half)
  for (const name of ['shop', 'gitops']) await ground.create(keyOf('Namespace', name, ''), { metadata: { name } })
  for (const definition of [widgets, halfDefinition]) {
    await ground.create(definitionKey(definition.metadata.name), definition)
  }
  const wanted = [
    [group, 'v1'],
    [half, 'v1'],
    [half, 'v2'],
  ] as const
  await eventually(
    async () => {
      await ground.readKinds()
      const isServed = wanted.every(([of, version]) => ground.kinds.find({ group: of, kind: 'Gadget' }, version))
      const isDefined = ground.kinds.find({ group: 'example.com', kind: 'Widget' }) !== undefined
      return isServed && isDefined && (await api.isAvailable()) && (await other.isAvailable())
    },
    { timeoutMs },
  )
  api.refuse = (before, { spec }) => {
    if (before && before.spec.fixed !== spec.fixed)
      return refused('spec.fixed', 'Invalid value: "b": field is immutable')
    return spec.size > 9 ? refused('spec.size', 'Invalid value: 10: has to be 9 or less') : undefined
  }

  let sources = 0n
  /** requests of the pods that change something: method and path, with the query */
  const sent: string[] = []
  const podOf = (block: SourceBlock = {}, answer: PodOptions['answer'] = () => undefined) => {
    api.writes.length = 0
    sent.length = 0
    const recorded = (method: string, path: string) => {
      if (method !== 'GET') sent.push(`${method} ${path}`)
      return answer(method, path)
    }
    return new Pod(ground, { projectId: sources, block, answer: recorded })
  }
  const start = (block?: SourceBlock) => {
    sources += 1n
    return podOf(block)
  }
  const dryRuns = () => [...sent, ...api.writes].filter((one) => one.includes('dryRun'))
  const tried = async (pod: Pod, files: Files) => {
    const result = await pod.round(files)
    if (result.kind !== 'dryRun') throw new Error(result.kind)
    return Object.fromEntries(result.ends.map(({ manifest, end }) => [manifest.key.name, end]))
  }

  await testRights(t, ground, controlPlane)

  await t.test('dry_run_strategy: server shows their objects as Git has them, and compares all others', async (t) => {
    const files = {
      'map.yaml': map('beside', '1'),
      'gadgets.yaml': [gadget('same', 'size: 1'), gadget('changed', 'size: 1')].join('---\n'),
      'widget.yaml': widget('custom', 'size: 1'),
    }
    await start().bring(files)
    const metadata = { name: 'theirs', namespace: 'shop', uid: 't', annotations: { [ownerAnnotation]: '41-1' } }
    api.objects.set('shop/theirs', { metadata })
    t.teardown(() => api.objects.delete('shop/theirs'))
    const before = structuredClone([...api.objects])
    const ends = await tried(podOf({ dry_run_strategy: 'server' }), {
      'map.yaml': map('beside', '2'),
      'gadgets.yaml': ['same', 'changed', 'new', 'theirs']
        .map((name) => gadget(name, `size: ${name.length - 3}`))
        .join('---\n'),
      'widget.yaml': widget('custom', 'size: 10'),
    })
    t.match(ends, {
      beside: { kind: 'applied', uncompared: undefined },
      same: { kind: 'unchanged' },
      changed: { kind: 'applied', uncompared: answers },
      new: { kind: 'applied', uncompared: answers },
      theirs: { kind: 'failed', problem: { kind: 'foreign', text: /belongs to inventory 41-1/ } },
      custom: { kind: 'failed', problem: { text: /less than or equal to 9/ } },
    })
    t.strictSame(api.writes, [])
    t.strictSame([...api.objects], before, 'nothing is stored')
    t.ok(dryRuns().length >= 2, 'the API server itself was asked')
    t.ok(
      sent.every((one) => one.includes('dryRun=All') && !one.includes(group)),
      sent.join('\n'),
    )
  })

  await t.test('one that only a new object can become waits for approval, since none was tried', async (t) => {
    const files = (fixed: string) => ({ 'one.yaml': gadget('replaced', `fixed: ${fixed}`, allow) })
    await start().bring(files('a'))
    const { uid } = api.objects.get('shop/replaced')?.metadata ?? {}
    const pod = podOf()
    const asking = await pod.bring(files('b'))
    const text = new RegExp(
      `^it is to be deleted and made again, and that waits for approval: ${escaped(untried)}: .*immutable$`,
    )
    t.match(asking.ends.replaced, { kind: 'failed', problem: { kind: 'immutable', text } })
    t.match(asking.awaitingApproval, [{ key: { name: 'replaced' } }])
    t.equal(api.objects.get('shop/replaced')?.metadata.uid, uid, 'it stays')
    t.strictSame(dryRuns(), [])
    t.ok(
      api.writes.every((one) => one.startsWith('PATCH /namespaces/shop/gadgets/replaced?')),
      api.writes.join('\n'),
    )
    t.match((await pod.bring(files('b'), { approved: 'another' })).kinds, { replaced: 'failed' })
    t.match((await pod.bring(files('b'), { approved: asking.planDigest })).kinds, { replaced: 'applied' })
    t.not(api.objects.get('shop/replaced')?.metadata.uid, uid, 'it is a new one')
    t.equal(api.objects.get('shop/replaced')?.spec.fixed, 'b')
    t.strictSame(dryRuns(), [])
    t.strictSame(
      [...api.objects.keys()].filter((one) => one.includes('trial')),
      [],
      'no trial is stored',
    )
  })

  await t.test('one that is wrong in Git stays, and the text says that no new one was tried', async (t) => {
    for (const [name, annotations] of Object.entries({ 'wrong-allowed': allow, wrong: '' })) {
      const files = (size: number) => ({ 'one.yaml': gadget(name, `size: ${size}`, annotations) })
      await start().bring(files(1))
      const { uid } = api.objects.get(`shop/${name}`)?.metadata ?? {}
      const { ends, awaitingApproval } = await podOf().bring(files(10))
      const text = new RegExp(`has to be 9 or less; ${escaped(untried)}$`)
      t.match(ends[name], { kind: 'failed', problem: { kind: 'invalid', text } }, name)
      t.strictSame(awaitingApproval, [])
      t.equal(api.objects.get(`shop/${name}`)?.metadata.uid, uid)
      t.strictSame(dryRuns(), [])
    }
  })

  await t.test('a custom kind of the API server itself is tried, and made again without approval', async (t) => {
    const files = (fixed: string, size = 1) => ({
      'one.yaml': widget('custom-again', `fixed: ${fixed}, size: ${size}`, allow),
    })
    await start().bring(files('a'))
    t.match((await podOf().bring(files('b', 10))).ends['custom-again'], {
      kind: 'failed',
      problem: { kind: 'immutable', text: /and it stays: .*less than or equal to 9/ },
    })
    t.match((await podOf().bring(files('b'))).kinds, { 'custom-again': 'applied' })
    t.match(dryRuns(), [/^POST \/apis\/example\.com\/v1\/namespaces\/shop\/widgets\?.*dryRun=All$/])
  })

  await t.test('without the rights it works on, and says what it cannot know', async (t) => {
    const mayNotList =
      (...paths: string[]): PodOptions['answer'] =>
      (_, path) => {
        const isRefused = paths.some((one) => path.startsWith(one))
        return isRefused ? { status: 403, body: { kind: 'Status', reason: 'Forbidden', code: 403 } } : undefined
      }
    const files = (fixed: string) => ({
      'map.yaml': map('with', fixed),
      'one.yaml': widget('unknown', `fixed: ${fixed}`, allow),
    })
    const block = { dry_run_strategy: 'server' } as const
    await start().bring(files('a'))
    const services = '/apis/apiregistration.k8s.io/'
    const definitions = '/apis/apiextensions.k8s.io/'
    const known = await tried(podOf(block, mayNotList(services)), files('b'))
    t.match(known, {
      with: { kind: 'applied' },
      unknown: { kind: 'failed', problem: { text: 'it would be made again' } },
    })
    const unknown = await tried(podOf(block, mayNotList(services, definitions)), files('b'))
    const risk = `another server may answer for example.com/v1, and store a dry run: ${mayNot}`
    t.match(unknown, {
      with: { kind: 'applied', uncompared: undefined },
      unknown: { kind: 'applied', uncompared: risk },
    })
    t.ok(dryRuns().every((one) => !one.includes('example.com')))
    const { ends } = await podOf({}, mayNotList(services, definitions)).bring(files('b'))
    t.match(ends, {
      with: { kind: 'applied' },
      unknown: { kind: 'failed', problem: { text: new RegExp(`${escaped(risk)}`) } },
    })
    t.strictSame(dryRuns(), [])
    t.match((await podOf().bring(files('b'))).kinds, { unknown: 'applied' }, 'with them it is made again')
  })
})

async function testRights(t: Test, ground: Ground, controlPlane: ControlPlane): Promise<void> {
  const folder = t.testdir()
  await agentkAccount(controlPlane, join(folder, 'kubeconfig'), ['agentk', 'agentk-gitops/1-agentk.yaml'])
  const rules = [{ apiGroups: ['apiextensions.k8s.io'], resources: ['customresourcedefinitions'], verbs: ['list'] }]
  await ground.create(keyOf('ClusterRole', 'reader', '', rbac), { metadata: { name: 'reader' }, rules })
  await ground.create(keyOf('ClusterRoleBinding', 'reader', '', rbac), {
    metadata: { name: 'reader' },
    roleRef: { apiGroup: rbac, kind: 'ClusterRole', name: 'reader' },
    subjects: [{ apiGroup: rbac, kind: 'User', name: 'reader' }],
  })
  const laneAs = (name: string) => ground.lanes.lane('control', ['Impersonate-User', name])
  const shipped = 'system:serviceaccount:agentk:agentk'
  // the API server learns of new roles a moment later
  for (const [name, kind] of [
    [shipped, builtIn.apiServices],
    ['reader', builtIn.customResourceDefinitions],
  ] as const) {
    const path = `${collectionPath(kind)}?limit=1`
    await eventually(async () => (await laneAs(name).json('GET', path)).status === 200)
  }
  const kinds = {
    deployments: { group: 'apps', version: 'v1', plural: 'deployments' },
    registrations: { group: 'apiregistration.k8s.io', version: 'v1', plural: 'apiservices' },
    widgets: { group: 'example.com', version: 'v1', plural: 'widgets' },
    unserved: { group: 'example.com', version: 'v0', plural: 'widgets' },
    gadgets: { group, version: 'v1', plural: 'gadgets' },
    beside: { group: half, version: 'v1', plural: 'gadgets' },
    definedBeside: { group: half, version: 'v2', plural: 'gadgets' },
  } satisfies Record<string, Pick<ClusterKind, 'group' | 'version' | 'plural'>>
  const risksOf = async (...names: string[]) => {
    const apis = new AggregatedApis(names.map(laneAs))
    const risks = Object.entries(kinds).map(
      async ([name, kind]) => [name, await apis.dryRunRisk(kind, signal)] as const,
    )
    return Object.fromEntries((await Promise.all(risks)).filter(([, risk]) => risk !== undefined))
  }
  const may = (api: string, reason: string) => `another server may answer for ${api}, and store a dry run: ${reason}`
  const unlisted = (...names: (keyof typeof kinds)[]) =>
    Object.fromEntries(names.map((name) => [name, may(`${kinds[name].group}/${kinds[name].version}`, mayNot)]))

  await t.test('by its APIServices, with the rights of the manifests that ship', async (t) => {
    const known = {
      unserved: may('example.com/v0', 'the cluster has no APIService of it'),
      gadgets: answers,
      beside: `another server answers for ${half}/v1 (APIService v1.${half}), and may store a dry run`,
    }
    t.strictSame(await risksOf(shipped), known)
    t.strictSame(await risksOf('nobody', shipped), known, 'as the account of the source, if agentk itself may not')
  })

  await t.test('without them only what Kubernetes or a definition that can be listed serves is its own', async (t) => {
    t.strictSame(await risksOf('reader'), unlisted('unserved', 'gadgets', 'beside'))
    t.strictSame(await risksOf('nobody', 'reader'), unlisted('unserved', 'gadgets', 'beside'))
    t.strictSame(
      await risksOf('nobody'),
      unlisted('widgets', 'unserved', 'gadgets', 'beside', 'definedBeside'),
      'nothing else is known',
    )
  })

  await t.test('a definition that comes after the list is known by itself', async (t) => {
    const apis = new AggregatedApis([laneAs(shipped)])
    const later = { group: 'later.example.com', version: 'v1', plural: 'widgets' }
    t.match(await apis.dryRunRisk(kinds.gadgets, signal), answers)
    const spec = { ...widgetDefinition.spec, group: later.group }
    const definition = { ...widgetDefinition, metadata: { name: `widgets.${later.group}` }, spec }
    const key = definitionKey(definition.metadata.name)
    await ground.create(key, definition)
    await eventually(async () => conditionStatus(await ground.get(key), 'Established') === 'True')
    ground.asked.length = 0
    for (const time of ['first', 'again']) t.equal(await apis.dryRunRisk(later, signal), undefined, time)
    t.equal(ground.asked.length, 1, 'each definition is read once')
  })
}

function definitionKey(name: string) {
  return keyOf('CustomResourceDefinition', name, '', 'apiextensions.k8s.io')
}

function escaped(text: string): string {
  return text.replaceAll(/[.*+?^${}()|[\]\\]/g, '\\$&')
}
