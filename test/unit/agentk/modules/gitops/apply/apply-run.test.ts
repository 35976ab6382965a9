import t from 'tap'
import { ApplyRun } from '../../../../../../src/agentk/modules/gitops/apply/apply-run.ts'
import { waveGraph } from '../../../../../../src/agentk/modules/gitops/build/wave-graph.ts'
import { ClusterKinds } from '../../../../../../src/agentk/modules/gitops/live/cluster-kinds.ts'
import type { LiveObject } from '../../../../../../src/agentk/modules/gitops/live/live-object.ts'
import type { Manifest } from '../../../../../../src/agentk/modules/gitops/manifests/manifest.ts'
import type { InventoryEntry } from '../../../../../../src/agentk/modules/gitops/round.ts'
import { keyText } from '../../../../../../src/kubernetes/key.ts'

const resource = (kind: string, plural: string) => ({
  kind,
  plural,
  isNamespaced: true,
  hasStatus: false,
  names: { singular: '', short: [], categories: [] },
  verbs: ['get', 'list', 'watch', 'patch', 'delete'],
})
const kinds = new ClusterKinds([
  { group: '', version: 'v1', isStale: false, resources: [resource('ConfigMap', 'configmaps')] },
  { group: 'batch', version: 'v1', isStale: false, resources: [resource('Job', 'jobs')] },
])

const manifest = (name: string, wave: number, after?: string, kind = 'ConfigMap', group = ''): Manifest => {
  const annotations = {
    'argocd.argoproj.io/sync-wave': String(wave),
    ...(after !== undefined && { 'config.kubernetes.io/depends-on': `/namespaces/shop/ConfigMap/${after}` }),
  }
  const object = { metadata: { name, namespace: 'shop', annotations } }
  return { key: { group, kind, namespace: 'shop', name }, version: 'v1', object, file: 'a', line: 1, digest: name }
}

const liveOf = (name: string): LiveObject => ({
  uid: name,
  resourceVersion: '1',
  owner: '42-7',
  digest: name,
  fields: name,
  fieldsTime: '',
  generation: 0,
  hasOtherWriters: false,
  replicasPath: 'spec.replicas',
  ownsReplicas: false,
  managers: [],
  isControlled: false,
  isBeingDeleted: false,
  holds: '',
  isLeftAlone: false,
  prune: '',
})

interface Given {
  /** names of objects that are as they were applied */
  readonly unchanged?: readonly string[]
  readonly failing?: readonly string[]
  /** names of objects with a change that only a new object can have */
  readonly fixed?: readonly string[]
  /** names of objects that are being deleted */
  readonly ending?: readonly string[]
  /** names of objects of which a field is refused */
  readonly wrong?: readonly string[]
  /** reason for which the gate of a Job does not open */
  readonly gate?: Promise<string | undefined>
  /** names of objects that an earlier pod has found to differ */
  readonly recorded?: readonly string[]
  /** by name: hashes of the fields that were left to others, as kept and live */
  readonly left?: Readonly<Record<string, readonly [kept: string | undefined, live: string | undefined]>>
}

const leftOut = [{ path: '.spec.replicas', manager: 'scaler', rule: '{ managers: [scaler] }' }]

function runOf(
  manifests: readonly Manifest[],
  { unchanged = [], failing = [], fixed = [], ending = [], wrong = [], recorded = [], gate, left = {} }: Given,
) {
  const [entries, live] = [new Map<string, InventoryEntry>(), new Map<string, LiveObject>()]
  for (const { key, version } of manifests.filter(({ key }) => unchanged.includes(key.name))) {
    const { name } = key
    const rest = { wave: 0, state: 'applied' as const, reason: '' }
    const [kept, now] = left[name] ?? []
    const was = kept !== undefined && { ignored: kept, leftOut }
    const drift = recorded.includes(name) && { drift: { since: 1 } }
    entries.set(keyText(key), { key, version, uid: name, digest: name, fields: name, ...was, ...drift, ...rest })
    const isBeingDeleted = ending.includes(name)
    live.set(keyText(key), { ...liveOf(name), isBeingDeleted, ...(now !== undefined && { ignored: now }) })
  }
  const { graph } = waveGraph(manifests)
  const applied: string[] = []
  const gated: string[] = []
  const run = new ApplyRun(
    {
      applier: {
        apply: async ({ key: { name } }) => {
          if (failing.includes(name)) return { problem: { kind: 'invalid', text: 'bad' } }
          if (wrong.includes(name)) return { problem: { kind: 'invalid', text: 'bad', places: ['spec.a'] } }
          if (fixed.includes(name)) return { problem: { kind: 'immutable', text: 'field is immutable' } }
          applied.push(name)
          return { live: liveOf(name), object: {} }
        },
      },
      replace: async ({ key: { name } }) => {
        applied.push(`${name} is made again`)
        return { live: liveOf(name), object: {} }
      },
      tryMaking: async () => ({ kind: 'untried', text: 'not tried' }),
      judge: async () => ({ kind: 'write' }),
      isDrifted: () => false,
      pass: async ({ key: { name } }) => {
        gated.push(name)
        return await gate
      },
      lane: { json: async () => ({ status: 200, body: {} }) as never },
      kindsWith: async () => kinds,
      onEnd: () => undefined,
      remember: async ({ key: { name } }) => {
        await Promise.resolve()
        applied.push(`${name} is remembered`)
      },
    },
    { id: '42-7', manifests, graph, kinds, entries, live, superseded: new AbortController().signal },
    new AbortController().signal,
  )
  const names = run.run().then((ends) => new Map([...ends].map(([text, end]) => [text.split('/')[3], end])))
  return { ends: names, applied, gated }
}

t.test('what is unchanged lets nothing pass that what is before it holds', async (t) => {
  const gate = Promise.withResolvers<string | undefined>()
  const migration = manifest('migration', 0, undefined, 'Job', 'batch')
  const { ends, applied } = runOf([migration, manifest('config', 1), manifest('web', 2)], {
    unchanged: ['config'],
    gate: gate.promise,
  })
  gate.resolve('Job shop/migration is not done')
  t.match((await ends).get('config'), { kind: 'unchanged' })
  t.match((await ends).get('web'), { kind: 'waits', text: /^ConfigMap shop\/config waits: .*migration/ })
  t.strictSame(applied, ['migration'])
})

t.test('nor by name', async (t) => {
  const { ends } = runOf([manifest('c', 0), manifest('b', 0, 'c'), manifest('a', 0, 'b')], {
    unchanged: ['b'],
    failing: ['c'],
  })
  t.match((await ends).get('b'), { kind: 'unchanged' })
  t.match((await ends).get('a'), { kind: 'waits', text: /c has failed: bad/ })
})

t.test('where nothing before it moves, what is unchanged waits for nothing', async (t) => {
  const job = manifest('job', 0, undefined, 'Job', 'batch')
  const same = runOf([job, manifest('b', 1), manifest('c', 2)], { unchanged: ['job', 'b', 'c'] })
  t.strictSame(
    [...(await same.ends).values()].map(({ kind }) => kind),
    ['unchanged', 'unchanged', 'unchanged'],
  )
  t.strictSame(same.gated, [])
  const last = runOf([job, manifest('b', 1), manifest('c', 2)], { unchanged: ['job', 'b'] })
  t.match((await last.ends).get('c'), { kind: 'applied' })
  t.strictSame(last.gated, [])
})

t.test('a Job that is cleaned up is remembered before anything that waits for it begins', async (t) => {
  const job = manifest('job', 0, undefined, 'Job', 'batch')
  const once = { ...job, object: { ...job.object, spec: { ttlSecondsAfterFinished: 0 } } }
  const { ends, applied } = runOf([once, manifest('web', 1)], {})
  await ends
  t.strictSame(applied, ['job', 'job is remembered', 'web'])
})

t.test('a gate of a wave is asked once for all that wait for it', async (t) => {
  const many = Array.from({ length: 50 }, (_, index) => manifest(`m${index}`, 1))
  const { ends, gated, applied } = runOf([manifest('job', 0, undefined, 'Job', 'batch'), ...many], {})
  await ends
  t.strictSame(gated, ['job'])
  t.equal(applied.length, 51)
})

t.test('what only a new object can have makes one where the manifest says so, and else fails', async (t) => {
  const [plain, allowed] = [manifest('plain', 0), manifest('allowed', 0)]
  const { metadata } = allowed.object as { metadata: { annotations: object } }
  const annotations = { ...metadata.annotations, 'agent.gitlab.com/replace': 'allow' }
  const again = { ...allowed, object: { metadata: { ...metadata, annotations } } }
  const { ends, applied } = runOf([plain, again], { fixed: ['plain', 'allowed'] })
  t.match((await ends).get('plain'), { kind: 'failed', problem: { kind: 'immutable' } })
  t.match((await ends).get('allowed'), { kind: 'applied' })
  t.strictSame(applied, ['allowed is made again'])
})

t.test('an object that an earlier pod has found to differ is judged, though its metadata do not show it', async (t) => {
  const { ends, applied } = runOf([manifest('a', 0), manifest('b', 0)], { unchanged: ['a', 'b'], recorded: ['b'] })
  t.match((await ends).get('a'), { kind: 'unchanged' })
  t.strictSame(applied, ['b'])
})

t.test('what was left to others is applied again once they own other fields', async (t) => {
  const left = { same: ['h', 'h'], gone: ['h', undefined], other: ['h', 'i'], new: [undefined, 'h'] } as const
  const names = Object.keys(left)
  const { ends, applied } = runOf(
    names.map((name) => manifest(name, 0)),
    { unchanged: names, left },
  )
  const found = await ends
  t.strictSame(applied.sort(), ['gone', 'other'])
  t.strictSame(found.get('same')?.kind === 'unchanged' && found.get('same'), {
    kind: 'unchanged',
    live: { ...liveOf('same'), ignored: 'h' },
    leftOut,
  })
  t.notOk('leftOut' in (found.get('new') ?? {}), 'an older agentk has kept nothing: the live object is the reference')
})

t.test('a Job that runs once is unchanged while it is being deleted; any other object is not', async (t) => {
  const job = manifest('job', 0, undefined, 'Job', 'batch')
  const once = { ...job, object: { ...job.object, spec: { ttlSecondsAfterFinished: 100 } } }
  for (const [one, end] of [
    [once, 'unchanged'],
    [job, 'applied'],
  ] as const) {
    const { ends, applied } = runOf([one, manifest('web', 1)], { unchanged: ['job'], ending: ['job'] })
    t.match((await ends).get('job'), { kind: end })
    t.match((await ends).get('web'), { kind: 'applied' })
    t.equal(applied.includes('job'), end === 'applied')
  }
})

t.test('without a trial the refusal stays, and the text has the reason', async (t) => {
  const { ends, applied } = runOf([manifest('odd', 0)], { unchanged: ['odd'], ending: ['odd'], wrong: ['odd'] })
  t.match((await ends).get('odd'), { kind: 'failed', problem: { kind: 'invalid', text: 'bad; not tried' } })
  t.strictSame(applied, [])
})
