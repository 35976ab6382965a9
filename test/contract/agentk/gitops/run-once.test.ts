import t from 'tap'
import { missingAssets } from '../../../../dev/control-plane/assets.ts'
import { ControlPlane } from '../../../../dev/control-plane/control-plane.ts'
import { Inventory } from '../../../../src/agentk/modules/gitops/inventory/inventory.ts'
import { systemClock } from '../../../../src/lib/clock.ts'
import { Phase } from '../../../../src/proto/gen/gitops_states_pb.ts'
import type { SourceBlock } from '../../../../src/proto/gitops/schema.ts'
import { eventually } from '../../../support/eventually.ts'
import { Ground, keyOf, skip } from './ground.ts'
import { startMutatingWebhook } from './mutating-webhook.ts'
import { type Files, Pod, type PodOptions } from './pod.ts'
import { RowsSide, source } from './rows-side.ts'

/**
 * A Job that the cluster deletes after its end runs once for each content in Git. The tests delete it as the controller
 * does. On a real API server.
 */

const spec = (image: string) =>
  `template: { spec: { restartPolicy: Never, containers: [{ name: a, image: "${image}" }] } }`
const job = (name: string, image = 'a', more = 'ttlSecondsAfterFinished: 0', annotations = '') => `
apiVersion: batch/v1
kind: Job
metadata: { name: ${name}, annotations: { ${annotations} } }
spec:
  ${more}
  ${spec(image)}
`
const map = (name: string, value: string, annotations = '') =>
  `apiVersion: v1\nkind: ConfigMap\nmetadata: { name: ${name}, annotations: { ${annotations} } }\ndata: { a: "${value}" }\n`
/** Another role needs a new object, and that an approval. */
const binding = (name: string, role: string) => `
apiVersion: rbac.authorization.k8s.io/v1
kind: RoleBinding
metadata: { name: ${name}, annotations: { agent.gitlab.com/replace: allow, agent.gitlab.com/prune: confirm } }
roleRef: { apiGroup: rbac.authorization.k8s.io, kind: ClusterRole, name: ${role} }
`

t.test('a Job that is gone', { skip, timeout: 300_000 }, async (t) => {
  const ground = await Ground.start(t)
  for (const name of ['shop', 'gitops']) await ground.create(keyOf('Namespace', name, ''), { metadata: { name } })
  const client = ground.client
  let sources = 0n
  /** applies of Jobs, by name */
  const applied: string[] = []
  const recorded: NonNullable<PodOptions['answer']> = (method, path) => {
    const [, name] = /\/jobs\/([^/?]+)\?/.exec(path) ?? []
    if (method === 'PATCH' && name !== undefined && !path.includes('dryRun')) applied.push(name)
    return undefined
  }
  const podOf = (block: SourceBlock = {}, more: Pick<PodOptions, 'answer' | 'fault'> = {}) => {
    applied.length = 0
    return new Pod(ground, { projectId: sources, block, answer: recorded, ...more })
  }
  const start = (block?: SourceBlock) => {
    sources += 1n
    return podOf(block)
  }
  const keyed = (name: string, kind = 'Job') => keyOf(kind, name, 'shop', 'batch')
  const gone = async (name: string, kind = 'Job') => {
    const { status } = await client.json('DELETE', `${ground.path(keyed(name, kind))}?propagationPolicy=Background`)
    t.equal(status, 200, `${name} is deleted`)
  }
  const isThere = async (name: string, kind = 'Job') => (await ground.get(keyed(name, kind))) !== undefined

  await t.test('is not made again by another round, process, leader, resync, commit or dry run', async (t) => {
    const files = { 'job.yaml': job('once'), 'map.yaml': map('once', '1') }
    const pod = start()
    await pod.bring(files)
    await gone('once')
    applied.length = 0
    t.match((await pod.bring(files)).kinds, { once: 'unchanged' }, 'another round')
    t.match((await podOf().bring(files)).kinds, { once: 'unchanged' }, 'another process')
    const leader = podOf()
    t.match((await leader.bring(files, { mayHaveCallsInFlight: true })).kinds, { once: 'unchanged' }, 'a new leader')
    t.match(
      (await leader.bring(files, { mayHaveCallsInFlight: false })).kinds,
      { once: 'unchanged' },
      'that has settled',
    )
    t.match(await podOf().round(files, { isSuspended: true }), { kind: 'suspended' })
    t.match(
      await podOf().bring({ ...files, 'map.yaml': map('once', '2') }),
      { pruned: [], planDigest: '' },
      'another commit',
    )
    for (const strategy of ['client', 'server'] as const) {
      const dry = await podOf({ dry_run_strategy: strategy }).round({ 'job.yaml': files['job.yaml'] })
      t.match(dry, { kind: 'dryRun', ends: [{ end: { kind: 'unchanged' } }] }, strategy)
    }
    t.strictSame(applied, [])
    t.equal(await isThere('once'), false)
  })

  await t.test('nor by agentk as a whole, that starts anew', async (t) => {
    const side = new RowsSide(ground, 900n)
    const { project, becomes, stop } = await side.start(t, [source])
    project.push({ 'job.yaml': job('whole') })
    await becomes(Phase.SYNCED)
    await gone('whole')
    await stop()
    project.states.length = 0
    const again = await side.startAt(t, { id: 900n, project }, [source])
    await again.becomes(Phase.SYNCED)
    project.push({ 'job.yaml': job('whole'), 'map.yaml': map('whole', '1') })
    t.match((await again.becomes(Phase.SYNCED)).counts, { objects: 2, applied: 1, unchanged: 1 })
    t.equal(await isThere('whole'), false)
    await again.stop()
  })

  await t.test('nor by a source of another name that adopts it', async (t) => {
    const files = { 'job.yaml': job('adopted') }
    const before = start()
    await before.bring(files)
    await gone('adopted')
    const renamed = podOf({ name: 'renamed', adopt: [before.options.id] })
    const inventoryOf = (id: string) =>
      new Inventory(ground.lanes.lane('control'), { namespace: 'gitops', agentId: 42n, id })
    const inventory = { own: inventoryOf(renamed.options.id), of: inventoryOf, clock: systemClock }
    t.match((await renamed.bring(files, {}, { inventory })).kinds, { adopted: 'unchanged' })
    t.strictSame(applied, [])
    t.equal(await isThere('adopted'), false)
  })

  await t.test('lets pass what waits for it, and the row is complete', async (t) => {
    const files = { 'job.yaml': job('migration') }
    await start().bring(files)
    await gone('migration')
    const after = map('after', '1', 'config.kubernetes.io/depends-on: batch/namespaces/shop/Job/migration')
    const { kinds, entries } = await podOf().bring({ ...files, 'map.yaml': after })
    t.strictSame(kinds, { migration: 'unchanged', after: 'applied' })
    t.match(entries.get('batch/Job/shop/migration'), { state: 'applied', reason: '' })
    t.strictSame(applied, [])
  })

  await t.test('nor while its deletion waits for its Pods', async (t) => {
    const files = { 'job.yaml': job('ending') }
    await start().bring(files)
    await ground.merge(keyed('ending'), { metadata: { finalizers: ['example.com/hold'] } }, 'kube-controller-manager')
    await client.json('DELETE', `${ground.path(keyed('ending'))}?propagationPolicy=Background`)
    t.ok((await ground.get(keyed('ending'))).metadata.deletionTimestamp)
    t.match((await podOf().bring(files)).kinds, { ending: 'unchanged' }, 'it is no failure')
    await ground.merge(keyed('ending'), { metadata: { finalizers: null } }, 'kube-controller-manager')
    t.match((await podOf().bring(files)).kinds, { ending: 'unchanged' })
    t.strictSame(applied, [])
    t.equal(await isThere('ending'), false)
  })

  await t.test('runs once for each content, also after a content that was refused', async (t) => {
    await start().bring({ 'job.yaml': job('content') })
    await gone('content')
    const { kinds } = await podOf().bring({ 'job.yaml': job('content', '') })
    t.match(kinds, { content: 'failed' }, 'a container without an image')
    t.match((await podOf().bring({ 'job.yaml': job('content') })).kinds, { content: 'unchanged' }, 'and back')
    t.strictSame(applied, [])
    t.match((await podOf().bring({ 'job.yaml': job('content', 'b') })).kinds, { content: 'applied' })
    await gone('content')
    t.match((await podOf().bring({ 'job.yaml': job('content', 'b') })).kinds, { content: 'unchanged' })
    t.match(
      (await podOf().bring({ 'job.yaml': job('content', 'b', 'ttlSecondsAfterFinished: 0', 'example.com/run: again') }))
        .kinds,
      { content: 'applied' },
      'an annotation is another content',
    )
  })

  await t.test('is not made again when a plan is approved, in which the commit is applied twice', async (t) => {
    const files = (role: string) => ({ 'job.yaml': job('planned-once'), 'binding.yaml': binding('planned', role) })
    await start().bring({ 'binding.yaml': binding('planned', 'view') })
    const { planDigest, kinds } = await podOf().bring(files('edit'))
    t.match(kinds, { 'planned-once': 'applied', planned: 'failed' })
    await gone('planned-once')
    t.match((await podOf().bring(files('edit'), { approved: planDigest })).kinds, {
      'planned-once': 'unchanged',
      planned: 'applied',
    })
    t.strictSame(applied, [])
  })

  await t.test('nor between the two times, if the first has made it', async (t) => {
    const files = (role: string) => ({ 'job.yaml': job('twice'), 'binding.yaml': binding('passes', role) })
    await start().bring({ 'binding.yaml': binding('passes', 'view') })
    const answer = (method: string, path: string) =>
      method === 'PATCH' && path.includes('/jobs/twice?') ? { status: 503, body: undefined } : undefined
    const { planDigest, kinds } = await podOf({}, { answer }).bring(files('edit'))
    t.match(kinds, { twice: 'failed', passes: 'failed' })
    const useApproval = () => gone('twice')
    const approved = await podOf().bring(files('edit'), { approved: planDigest, useApproval })
    t.match(approved.kinds, { twice: 'unchanged', passes: 'applied' })
    t.strictSame(applied, ['twice'])
    t.equal(await isThere('twice'), false)
  })

  await t.test('is made again by no process that was killed once the inventory has it', async (t) => {
    /** all calls of a round, as far as they are the same each time */
    const calls: string[] = []
    const answer = (method: string, path: string) => {
      calls.push(`${method} ${path}`)
      return undefined
    }
    sources += 1n
    await podOf({}, { answer }).bring({ 'job.yaml': job('probe') })
    const made = calls.findIndex((call) => call.startsWith('PATCH') && call.includes('/jobs/probe?')) + 1
    t.ok(made > 1 && made < calls.length)
    const known: string[] = []
    for (const kind of ['unsent', 'unanswered'] as const) {
      for (let at = made; at <= calls.length; at++) {
        sources += 1n
        const name = `killed-${kind}-${at - made}`
        const files: Files = { 'job.yaml': job(name) }
        const killed = podOf({}, { fault: { at, kind } })
        await killed.bring(files).catch((error: unknown) => {
          if (!killed.isKilled) throw error
        })
        await killed.landed()
        const hasRun = await isThere(name)
        if (hasRun) await gone(name)
        const entry = (await podOf().entries()).get(`batch/Job/shop/${name}`)
        if (entry?.digest) known.push(name)
        await podOf().bring(files)
        t.equal(applied.length, entry?.digest ? 0 : 1, `${name}: ${hasRun ? 'it has run' : 'it has not run'}`)
      }
    }
    t.notMatch(known.join(), /killed-(?:unsent-[01]|unanswered-0)\b/, 'it was killed before the inventory had it')
    t.ok(known.includes('killed-unanswered-1'), 'the call after the apply writes the inventory')
  })

  await t.test('comes back if the cluster does not delete it by itself', async (t) => {
    for (const [name, more] of [
      ['plain', ''],
      ['null-ttl', 'ttlSecondsAfterFinished: null'],
      ['suspended', 'suspend: true'],
    ] as const) {
      const files = { 'job.yaml': job(name, 'a', more) }
      await start().bring(files)
      await gone(name)
      t.match((await podOf().bring(files)).kinds, { [name]: 'applied' }, name)
      t.equal(await isThere(name), true, name)
    }
  })

  await t.test('nor if an admission webhook had it cleaned up: Git need not say so', async (t) => {
    const marked = 'clean: "yes"'
    const remove = await startMutatingWebhook(t, ground, {
      name: 'cleanup',
      group: 'batch',
      resource: 'jobs',
      mutate: ({ metadata: { annotations }, spec: made }) =>
        annotations?.clean && made.ttlSecondsAfterFinished === undefined
          ? [{ op: 'add', path: '/spec/ttlSecondsAfterFinished', value: 0 }]
          : [],
    })
    const files = { 'job.yaml': job('admitted', 'a', '', marked) }
    const made = await eventually(async () => {
      await start().bring(files)
      const live = await ground.get(keyed('admitted'))
      if (live.spec.ttlSecondsAfterFinished === 0) return live
      await gone('admitted') // the webhook is not in force yet
      return false
    })
    t.notMatch(JSON.stringify(made.metadata.managedFields), /ttlSecondsAfterFinished/, 'nobody owns the field')
    await gone('admitted')
    const { kinds, entries } = await podOf().bring(files)
    t.match(kinds, { admitted: 'unchanged' }, 'another process')
    t.match(entries.get('batch/Job/shop/admitted'), { runsOnce: true, state: 'applied' })
    t.match((await podOf().bring({ ...files, 'map.yaml': map('beside-admitted', '1') })).kinds, {
      admitted: 'unchanged',
    })
    t.match((await podOf().bring(files, { mayHaveCallsInFlight: true })).kinds, { admitted: 'unchanged' }, 'a leader')
    t.strictSame(applied, [])
    t.match((await podOf().bring({ 'job.yaml': job('admitted', 'b', '', marked) })).kinds, { admitted: 'applied' })
    await gone('admitted')
    t.match((await podOf().bring({ 'job.yaml': job('admitted', 'b', '', marked) })).kinds, { admitted: 'unchanged' })

    const side = new RowsSide(ground, 950n)
    const asked: string[] = []
    const counted: typeof client.json = (...args) => {
      asked.push(`${args[0]} ${args[1]}`)
      return client.json(...args)
    }
    const proxy = new Proxy(client, {
      get: (of, name) => (name === 'json' ? counted : Reflect.get(of, name).bind(of)),
    })
    const followed = await side.start(t, [{ ...source, drift: { after: '0s' } }], proxy)
    const { project, row, becomes, stop } = followed
    const whole = { 'job.yaml': job('whole-admitted', 'a', '', marked) }
    project.push(whole)
    await becomes(Phase.SYNCED)
    asked.length = 0
    await gone('whole-admitted')
    await eventually(() => asked.some((one) => /^GET .*\/jobs\/whole-admitted$/.test(one))) // it was compared
    project.push({ ...whole, 'map.yaml': map('whole-admitted', '1') })
    t.match(await becomes(Phase.SYNCED), { counts: { objects: 2, applied: 1, unchanged: 1, drifted: 0 }, drifted: [] })
    t.equal(await isThere('whole-admitted'), false, `it is no drift: ${row()?.problem}`)
    await stop()

    await remove()
    await eventually(async () => {
      const plain = { 'job.yaml': job('not-admitted', 'a', '', marked) }
      await start().bring(plain)
      const isPlain = (await ground.get(keyed('not-admitted'))).spec.ttlSecondsAfterFinished === undefined
      await gone('not-admitted')
      const again = (await podOf().bring(plain)).kinds['not-admitted']
      if (isPlain) t.equal(again, 'applied', 'without the webhook it comes back')
      if (isPlain || (await isThere('not-admitted'))) await gone('not-admitted')
      return isPlain
    })
  })

  await t.test('of a CronJob is nobody’s but the CronJob’s, which comes back itself', async (t) => {
    const cron = (schedule: string) => `
apiVersion: batch/v1
kind: CronJob
metadata: { name: nightly }
spec:
  schedule: "${schedule}"
  jobTemplate: { spec: { ttlSecondsAfterFinished: 0, ${spec('a')} } }
`
    const files = { 'cron.yaml': cron('0 1 * * *') }
    await start().bring(files)
    const { metadata, spec: made } = await ground.get(keyed('nightly', 'CronJob'))
    const owner = { apiVersion: 'batch/v1', kind: 'CronJob', name: 'nightly', uid: metadata.uid, controller: true }
    await ground.create(keyed('nightly-1'), {
      metadata: {
        name: 'nightly-1',
        labels: metadata.labels,
        annotations: metadata.annotations,
        ownerReferences: [owner],
      },
      spec: made.jobTemplate.spec,
    })
    const beside = await podOf().bring(files)
    t.match(beside, { kinds: { nightly: 'unchanged' }, pruned: [] })
    t.equal(await isThere('nightly-1'), true, 'it is not pruned, even with the labels of the CronJob')
    await gone('nightly-1')
    t.match((await podOf().bring(files)).kinds, { nightly: 'unchanged' })
    await gone('nightly', 'CronJob')
    t.match((await podOf().bring(files)).kinds, { nightly: 'applied' })
    t.strictSame(applied, [], 'no Job is applied')
  })

  await t.test('and was made again by somebody else is theirs', async (t) => {
    const files = { 'job.yaml': job('again') }
    await start().bring(files)
    const { uid } = (await ground.get(keyed('again'))).metadata
    await gone('again')
    await ground.create(keyed('again'), {
      metadata: { name: 'again' },
      spec: { template: { spec: { restartPolicy: 'Never', containers: [{ name: 'a', image: 'a' }] } } },
    })
    const theirs = await ground.get(keyed('again'))
    t.not(theirs.metadata.uid, uid)
    t.match((await podOf().bring(files)).ends.again, { kind: 'failed', problem: { kind: 'foreign' } })
    t.equal((await ground.get(keyed('again'))).metadata.uid, theirs.metadata.uid)
    await gone('again')
    t.match((await podOf().bring(files)).kinds, { again: 'unchanged' })
    t.strictSame(applied, [])
  })
})

const assets = process.env.KUBEBUILDER_ASSETS ?? ''
const absent = missingAssets(assets, 'all')
const needs = absent.length > 0 && `needs ${absent.join(', ')}`

t.test(
  'with Kubernetes’ own controllers, in rounds one after another',
  { skip: needs, timeout: 300_000 },
  async (t) => {
    const controlPlane = new ControlPlane({ assets, parts: 'all' })
    t.teardown(() => controlPlane.stop())
    await controlPlane.start()
    const ground = await Ground.start(t, controlPlane)
    for (const name of ['shop', 'gitops']) await ground.create(keyOf('Namespace', name, ''), { metadata: { name } })
    await eventually(async () => (await ground.get(keyOf('ServiceAccount', 'default'))) !== undefined)
    const key = keyOf('Job', 'real', 'shop', 'batch')
    const files = { 'job.yaml': job('real', 'a', 'ttlSecondsAfterFinished: 1') }
    const round = async () => {
      const { ends } = await new Pod(ground, { projectId: 1n }).bring(files)
      return ends.real?.kind
    }
    t.equal(await round(), 'applied')
    const { uid } = (await ground.get(key)).metadata
    const kinds = new Set<string | undefined>()
    await eventually(
      async () => {
        kinds.add(await round())
        const live = await ground.get(key)
        if (live) t.equal(live.metadata.uid, uid)
        return live === undefined
      },
      { timeoutMs: 90_000 },
    )
    for (const time of ['first', 'second', 'third']) {
      t.equal(await round(), 'unchanged', time)
      t.equal(await ground.get(key), undefined, time)
    }
    t.strictSame([...kinds], ['unchanged'], 'while it runs, ends and is deleted')
  },
)
