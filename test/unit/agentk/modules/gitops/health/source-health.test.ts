import { setImmediate } from 'node:timers/promises'
import t, { type Test } from 'tap'
import { argoHealth } from '../../../../../../src/agentk/health/argo/argo.ts'
import { JudgeTurns } from '../../../../../../src/agentk/modules/gitops/health/judge-turns.ts'
import { isJudgedKind } from '../../../../../../src/agentk/modules/gitops/health/judged-kinds.ts'
import { NamespaceHealth } from '../../../../../../src/agentk/modules/gitops/health/namespace-health.ts'
import type { RelatedListener } from '../../../../../../src/agentk/modules/gitops/health/related-namespaces.ts'
import { SourceHealth } from '../../../../../../src/agentk/modules/gitops/health/source-health.ts'
import { ClusterKinds } from '../../../../../../src/agentk/modules/gitops/live/cluster-kinds.ts'
import type { InventoryEntry } from '../../../../../../src/agentk/modules/gitops/round.ts'
import { sourceOptions } from '../../../../../../src/agentk/modules/gitops/source-options.ts'
import { keyText, type ObjectKey } from '../../../../../../src/kubernetes/key.ts'
import { Counter } from '../../../../../../src/lib/counter.ts'
import { KasError } from '../../../../../../src/lib/errors.ts'
import { capturedLog } from '../../../../../support/captured-log.ts'
import { ManualClock } from '../../../../../support/manual-clock.ts'

/** Reads of a source's objects, with a double of the API server and a clock that the test moves. */

const verbs = ['get', 'list', 'watch', 'patch', 'delete']
const resource = (kind: string, plural: string) => ({ kind, plural, isNamespaced: true, verbs, shortNames: [] })
const kinds = new ClusterKinds([
  { group: 'apps', version: 'v1', isStale: false, resources: [resource('Deployment', 'deployments')] },
  { group: 'batch', version: 'v1', isStale: false, resources: [resource('Job', 'jobs')] },
  {
    group: '',
    version: 'v1',
    isStale: false,
    resources: [resource('ConfigMap', 'configmaps'), resource('Secret', 'secrets')],
  },
] as never)
const keyOf = (kind: string, name: string, group = 'apps'): ObjectKey => ({ group, kind, namespace: 'shop', name })
const entryOf = (key: ObjectKey, digest = 'a'): InventoryEntry =>
  ({ key, version: 'v1', uid: key.name, wave: 0, digest, fields: '', state: 'live', reason: '' }) as never

const seen = (version: string, generation = 1) => ({ version, generation })

interface Options {
  readonly accept?: string
}

interface Live {
  version: string
  available: boolean
  spec?: object
  conditions?: object[]
}

function start(t: Test, listStatus = 200) {
  const clock = new ManualClock()
  const ended = new AbortController()
  t.teardown(() => ended.abort())
  const live = new Map<string, Live>()
  const asked: string[] = []
  const refused = new Set<string>()
  /** objects that are too large; a page with one is too large as well */
  const large = new Set<string>()
  const bodyOf = (name: string, { version, available, spec = {}, conditions }: Live) => ({
    metadata: { name, namespace: 'shop', uid: name, resourceVersion: version, generation: 1 },
    spec: { replicas: 1, ...spec },
    status: {
      observedGeneration: 1,
      replicas: 1,
      updatedReplicas: 1,
      readyReplicas: available ? 1 : 0,
      availableReplicas: available ? 1 : 0,
      conditions: conditions ?? [{ type: 'Available', status: available ? 'True' : 'False' }],
    },
  })
  const json = async (_method: string, path: string, _body?: unknown, _signal?: AbortSignal, options?: Options) => {
    asked.push(path.split('?')[0] as string)
    const name = /\/(?:deployments|jobs)\/([^/?]+)/.exec(path)?.[1]
    const isMetadata = options?.accept?.includes('PartialObjectMetadata') === true
    const tooLarge = () => new KasError({ code: 'MESSAGE_TOO_LARGE', bytes: 9e6, maxBytes: 4e6 })
    if (name !== undefined && large.has(name)) throw tooLarge()
    if (name === undefined) {
      if (listStatus !== 200) return { status: listStatus, body: {} }
      const params = new URL(path, 'http://host').searchParams
      const [limit, from] = ['limit', 'continue'].map((one) => Number(params.get(one))) as [number, number]
      const page = path.includes('/deployments') ? [...live].slice(from, from + limit) : []
      if (!isMetadata && page.some(([one]) => large.has(one))) throw tooLarge()
      const items = page.map(([one, object]) => bodyOf(one, object))
      await given.beforeList
      const next = from + limit < live.size ? String(from + limit) : ''
      return { status: 200, body: { metadata: { resourceVersion: '1', continue: next }, items } }
    }
    if (refused.has(name)) return { status: 403, body: {} }
    const object = live.get(name)
    await given.beforeGet
    return object ? { status: 200, body: bodyOf(name, object) } : { status: 404, body: {} }
  }
  const given: {
    beforeList: Promise<void> | undefined
    beforeGet: Promise<void> | undefined
    /** true while Pods are not ready; undefined: nobody reads them */
    awaits: (() => boolean) | undefined
  } = { beforeList: undefined, beforeGet: undefined, awaits: undefined }
  let changes = 0
  let listener: RelatedListener | undefined
  const related = {
    objects: [],
    trouble: new Map(),
    evidence: () => new Map(),
    isWhole: () => false,
    deletedAt: () => undefined,
    awaitsPods: () => given.awaits?.() === true,
  }
  const turns = new JudgeTurns({ clock, pace: clock, log: capturedLog().log })
  const turn = (judge: () => void) => turns.add(clock, judge)
  const room = new Counter<string>({ max: 1e6 })
  const health = new SourceHealth(
    {
      lane: { json } as never,
      rulesReady: async () => undefined,
      isJudged: isJudgedKind,
      kinds: { current: async () => kinds },
      namespace: (name, onChange) =>
        new NamespaceHealth(
          {
            enter: (one) => {
              if (!given.awaits) return undefined
              listener = one
              return { objects: related as never, explain: () => undefined, leave: () => undefined }
            },
            turn,
            room,
            verdictsOf: (object) => ({ argo: argoHealth(object) }),
            onChange,
            clock,
          },
          name,
        ),
      onChange: () => {
        changes += 1
      },
      clock,
      log: capturedLog().log,
    },
    sourceOptions({}, { agentId: 42n, projectId: 7n, ownProject: 'platform/shop' }),
    ended.signal,
  )
  const settle = async () => {
    for (let i = 0; i < 20; i++) await setImmediate()
  }
  return {
    given,
    clock,
    live,
    /** the live object as others have read it */
    object: (name: string) => ({
      apiVersion: 'apps/v1',
      kind: 'Deployment',
      ...bodyOf(name, live.get(name) as Live),
    }),
    asked,
    refused,
    large,
    health,
    changes: () => changes,
    podsChange: () => listener?.onChange(),
    settle,
    update: async (entries: readonly InventoryEntry[], runOnce: readonly ObjectKey[] = []) => {
      health.update(entries, kinds, new Set(runOnce.map(keyText)))
      await settle()
    },
    advance: async (ms: number) => {
      clock.advance(ms)
      await settle()
    },
  }
}

t.test('objects are read by pages at first; kinds without a verdict and Secrets are not', async (t) => {
  const { live, asked, health, update } = start(t)
  const names = Array.from({ length: 30 }, (_, i) => `web-${i}`)
  for (const name of names) live.set(name, { version: '1', available: true })
  const others = [keyOf('ConfigMap', 'map', ''), keyOf('Secret', 'token', '')]
  await update([...names.map((name) => entryOf(keyOf('Deployment', name))), ...others.map((key) => entryOf(key))])
  t.strictSame(asked, ['/apis/apps/v1/deployments'])
  t.match(health.summary, { counts: { Healthy: 30 }, unread: 0, unhealthy: [] })
})

t.test('an object that does not exist is missing; a Job that ran once is healthy', async (t) => {
  const { health, update } = start(t)
  const job = keyOf('Job', 'once', 'batch')
  await update([entryOf(keyOf('Deployment', 'web')), entryOf(job)], [job])
  t.match(health.summary, { counts: { Missing: 1, Healthy: 1 }, unhealthy: [{ word: 'Missing' }] })
})

t.test('a change is read at once, then once in 2 s while it is not healthy, and the last change always', async (t) => {
  const { live, asked, health, update, advance } = start(t)
  const web = keyOf('Deployment', 'web')
  live.set('web', { version: '1', available: false })
  await update([entryOf(web)])
  t.match(health.summary, { counts: { Progressing: 1 } })
  asked.length = 0
  await advance(3000)
  for (let i = 2; i <= 21; i++) {
    live.set('web', { version: String(i), available: i === 21 })
    health.seen(web, seen(String(i)))
    await advance(100)
  }
  await advance(2000)
  t.match(health.summary, { counts: { Healthy: 1 } })
  t.ok(asked.length <= 3, `${asked.length} reads in 4 s`)
})

t.test('what writes the status of a healthy object all the time has it read once in 10 s', async (t) => {
  const { live, asked, health, update, advance } = start(t)
  const web = keyOf('Deployment', 'web')
  live.set('web', { version: '1', available: true })
  await update([entryOf(web)])
  await advance(20_000)
  asked.length = 0
  for (let i = 2; i <= 302; i++) {
    live.set('web', { version: String(i), available: true })
    health.seen(web, seen(String(i)))
    await advance(100)
  }
  t.ok(asked.length >= 2 && asked.length <= 5, `${asked.length} reads in 30 s`)
  health.seen(web, seen('302'))
  const before = asked.length
  await advance(20_000)
  t.ok(asked.length <= before + 1, 'the last change is read, and no other')
})

t.test('after an apply an object counts as unread until it was read', async (t) => {
  const { live, health, update } = start(t)
  const web = keyOf('Deployment', 'web')
  live.set('web', { version: '1', available: true })
  await update([entryOf(web)])
  t.match(health.summary, { counts: { Healthy: 1 }, unread: 0 })
  health.update([entryOf(web, 'b')], kinds, new Set())
  t.match(health.summary, { counts: { Healthy: 0 }, unread: 1 })
})

t.test('where no list is allowed each object is read; one that may not be read is unknown', async (t) => {
  const { live, asked, refused, health, update, advance } = start(t, 403)
  for (const name of ['a', 'b']) live.set(name, { version: '1', available: true })
  refused.add('b')
  await update(['a', 'b'].map((name) => entryOf(keyOf('Deployment', name))))
  t.match(health.summary, {
    counts: { Healthy: 1, Unknown: 1 },
    unhealthy: [{ word: 'Unknown', cause: { reason: 'NotReadable', text: 'the API server answered 403' } }],
  })
  refused.clear()
  asked.length = 0
  await advance(30_000)
  t.match(health.summary, { counts: { Healthy: 2, Unknown: 0 } }, 'it is tried again')
})

t.test('an object that leaves is forgotten', async (t) => {
  const { live, health, update } = start(t)
  live.set('web', { version: '1', available: false })
  await update([entryOf(keyOf('Deployment', 'web'))])
  await update([])
  t.match(health.summary, { counts: { Progressing: 0 }, unread: 0, unhealthy: [] })
})

t.test('a Job that runs once, has failed and is gone is missing, however often it is read', async (t) => {
  const { live, health, update, advance } = start(t)
  const job = keyOf('Job', 'once', 'batch')
  const conditions = [{ type: 'Failed', status: 'True', reason: 'BackoffLimitExceeded', message: 'no' }]
  live.set('once', { version: '1', available: false, spec: { ttlSecondsAfterFinished: 1 }, conditions })
  await update([entryOf(job)], [job])
  t.match(health.summary, { counts: { Degraded: 1 } })
  live.delete('once')
  health.left(job)
  for (let i = 0; i < 3; i++) {
    await advance(3000)
    t.match(health.summary, { counts: { Missing: 1, Healthy: 0 } })
    health.seen(job, seen(String(i)))
  }
})

t.test('a change that comes while pages are read is not lost', async (t) => {
  const { given, live, health, update, advance, settle } = start(t)
  const web = keyOf('Deployment', 'web')
  live.set('web', { version: '1', available: true })
  const { promise, resolve } = Promise.withResolvers<void>()
  given.beforeList = promise
  await update([entryOf(web)])
  live.set('web', { version: '2', available: false })
  health.seen(web, seen('2'))
  resolve()
  await settle()
  await advance(3000)
  t.match(health.summary, { counts: { Progressing: 1, Healthy: 0 } })
})

t.test('an event that a watch sends for a version that was read costs no read', async (t) => {
  const { live, asked, health, update, advance } = start(t)
  const web = keyOf('Deployment', 'web')
  live.set('web', { version: '1', available: true })
  await update([entryOf(web)])
  asked.length = 0
  health.seen(web, seen('1'))
  await advance(60_000)
  t.strictSame(asked, [])
})

t.test('an object that lost its label is read: it is not missing', async (t) => {
  const { live, health, update, advance } = start(t)
  const web = keyOf('Deployment', 'web')
  live.set('web', { version: '1', available: true })
  await update([entryOf(web)])
  health.left(web)
  await advance(3000)
  t.match(health.summary, { counts: { Healthy: 1, Missing: 0 } })
})

t.test('an object that cannot be read after its apply stays unknown, whatever is judged beside it', async (t) => {
  const { live, refused, health, update, advance } = start(t, 403)
  const [web, api] = [keyOf('Deployment', 'web'), keyOf('Deployment', 'api')]
  for (const name of ['web', 'api']) live.set(name, { version: '1', available: true })
  await update([entryOf(web), entryOf(api)])
  t.match(health.summary, { counts: { Healthy: 2 } })
  refused.add('web')
  await update([entryOf(web, 'b'), entryOf(api)])
  t.match(health.summary, { counts: { Healthy: 1, Unknown: 1 } })
  live.set('api', { version: '2', available: true })
  health.seen(api, seen('2'))
  await advance(20_000)
  t.match(health.summary, { counts: { Healthy: 1, Unknown: 1 } })
})

t.test('in a round for a new commit, objects count once it has come to them', async (t) => {
  const { live, health, update, advance } = start(t)
  const [web, api] = [keyOf('Deployment', 'web'), keyOf('Deployment', 'api')]
  for (const name of ['web', 'api']) live.set(name, { version: '1', available: name === 'api' })
  await update([entryOf(web), entryOf(api)])
  t.match(health.summary, { counts: { Progressing: 1, Healthy: 1 }, unread: 0 })
  health.roundBegins()
  t.match(health.summary, { counts: { Progressing: 0, Healthy: 0 }, unread: 2, unhealthy: [] })
  health.stepEnded(api, false)
  t.match(health.summary, { counts: { Healthy: 1 }, unread: 1 })
  health.stepEnded(web, true)
  t.match(health.summary, { unread: 1 }, 'it is to be read')
  await advance(1000)
  t.match(health.summary, { counts: { Progressing: 1, Healthy: 1 }, unread: 0 }, 'the round waits')
  health.roundBegins()
  health.roundFailed()
  t.match(health.summary, { counts: { Progressing: 1, Healthy: 1 }, unread: 0 })
})

t.test('an object whose kind nobody serves counts as unread', async (t) => {
  const { health, update } = start(t)
  await update([entryOf(keyOf('Thing', 'one', 'example.com'))])
  t.match(health.summary, { unread: 1, counts: { Healthy: 0 } })
})

t.test('an object that others have read counts, and costs no read', async (t) => {
  const { live, asked, object, health, update, advance } = start(t)
  const web = keyOf('Deployment', 'web')
  live.set('web', { version: '9', available: false })
  await update([entryOf(web)])
  await advance(5000)
  asked.length = 0
  live.set('web', { version: '10', available: true })
  health.seen(web, seen('10'))
  health.taken(web, object('web'))
  t.match(health.summary, { counts: { Healthy: 1 } })
  await advance(20_000)
  t.strictSame(asked, [])
})

t.test('what others have read is older, of no number, or from before its apply: it does not count', async (t) => {
  const { live, object, health, update, advance } = start(t)
  const web = keyOf('Deployment', 'web')
  live.set('web', { version: '10', available: false })
  await update([entryOf(web)])
  for (const version of ['9', '10', '', 'x', '0x99', '-11']) {
    live.set('web', { version, available: true })
    health.taken(web, object('web'))
    t.match(health.summary, { counts: { Healthy: 0, Progressing: 1 } }, version)
  }
  live.set('web', { version: '11', available: true })
  health.stepEnded(web, true)
  health.taken(web, object('web'))
  t.match(health.summary, { counts: { Healthy: 0 }, unread: 1 }, 'it is to be read after the apply')
  await advance(1000)
  t.match(health.summary, { counts: { Healthy: 1 }, unread: 0 })
})

t.test('a read that began before a newer object came does not take its place', async (t) => {
  const { given, live, object, health, update, advance, settle } = start(t)
  const web = keyOf('Deployment', 'web')
  live.set('web', { version: '9', available: false })
  await update([entryOf(web)])
  await advance(5000)
  const { promise, resolve } = Promise.withResolvers<void>()
  given.beforeGet = promise
  live.set('web', { version: '10', available: false })
  health.seen(web, seen('10'))
  await advance(1000)
  live.set('web', { version: '11', available: true })
  health.taken(web, object('web'))
  resolve()
  await settle()
  t.match(health.summary, { counts: { Healthy: 1, Progressing: 0 } })
})

t.test('a workload whose spec has changed is not healthy until it was read, and it is read soon', async (t) => {
  const { live, asked, health, update, advance } = start(t)
  const web = keyOf('Deployment', 'web')
  live.set('web', { version: '1', available: true })
  await update([entryOf(web)])
  live.set('web', { version: '2', available: true })
  health.seen(web, seen('2'))
  await advance(300)
  asked.length = 0
  live.set('web', { version: '3', available: true })
  health.seen(web, seen('3'))
  t.match(health.summary, { counts: { Healthy: 1 } }, 'its status alone')
  health.seen(web, seen('4', 2))
  t.match(health.summary, { counts: { Healthy: 0, Progressing: 1 } }, 'a rollout has begun')
  health.seen(keyOf('Job', 'none', 'batch'), seen('4', 2))
  await advance(2000)
  t.equal(asked.length, 1)
  t.match(health.summary, { counts: { Healthy: 1 } })
})

t.test('an object that is made again while it is read is not missing for ever', async (t) => {
  const { given, live, health, update, advance, settle } = start(t)
  const web = keyOf('Deployment', 'web')
  live.set('other', { version: '1', available: true })
  const { promise, resolve } = Promise.withResolvers<void>()
  given.beforeGet = promise
  await update([entryOf(web)])
  live.set('web', { version: '5', available: true })
  health.seen(web, seen('5'))
  resolve()
  await settle()
  t.match(health.summary, { counts: { Missing: 1 } })
  await advance(3000)
  t.match(health.summary, { counts: { Missing: 0, Healthy: 1 } })
})

t.test('an object that is too large is unknown, and the others are judged', async (t) => {
  const { live, large, asked, health, update, advance } = start(t)
  for (const name of ['huge', 'web']) live.set(name, { version: '1', available: true })
  large.add('huge')
  await update(['huge', 'web'].map((name) => entryOf(keyOf('Deployment', name))))
  t.match(health.summary, {
    counts: { Healthy: 1, Unknown: 1 },
    unread: 0,
    unhealthy: [{ key: { name: 'huge' }, cause: { reason: 'NotReadable', text: 'it is too large' } }],
  })
  const alone = asked.filter((path) => /\/deployments\/\w/.test(path))
  t.strictSame(alone, ['/apis/apps/v1/namespaces/shop/deployments/huge'], 'no other object is read alone for it')
  asked.length = 0
  await advance(25_000)
  t.strictSame(asked, [], 'it is not read again and again')
})

t.test('the status of a workload is read once its last Pod is ready, and seldom before', async (t) => {
  const { given, live, asked, health, update, advance, podsChange } = start(t)
  const web = keyOf('Deployment', 'web')
  let isReady = false
  given.awaits = () => !isReady
  live.set('web', { version: '1', available: false })
  await update([entryOf(web)])
  await advance(3000)
  asked.length = 0
  for (let i = 2; i <= 21; i++) {
    live.set('web', { version: String(i), available: false })
    health.seen(web, seen(String(i)))
    await advance(200)
  }
  t.ok(asked.length <= 1, `${asked.length} reads in 4 s`)
  for (let i = 0; i < 2; i++) await advance(5000)
  asked.length = 0
  live.set('web', { version: '30', available: true })
  health.seen(web, seen('30'))
  isReady = true
  podsChange()
  await advance(500)
  await advance(250)
  t.strictSame(asked.length, 1, 'the watch of Pods has told it after the change')
  t.match(health.summary, { counts: { Healthy: 1 } })
})
