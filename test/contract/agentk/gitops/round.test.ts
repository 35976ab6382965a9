import { createHash } from 'node:crypto'
import t from 'tap'
import { buildCommit } from '../../../../src/agentk/modules/gitops/build/build-commit.ts'
import type { ReadJob } from '../../../../src/agentk/modules/gitops/build/manifests-thread.ts'
import { Inventory } from '../../../../src/agentk/modules/gitops/inventory/inventory.ts'
import { ObjectWaits, openWatches } from '../../../../src/agentk/modules/gitops/live/object-waits.ts'
import { SharedKinds } from '../../../../src/agentk/modules/gitops/live/shared-kinds.ts'
import { inventoryLabel } from '../../../../src/agentk/modules/gitops/manifests/annotations.ts'
import type { RepositoryFile } from '../../../../src/agentk/modules/gitops/manifests/manifest.ts'
import { readManifests } from '../../../../src/agentk/modules/gitops/manifests/read-manifests.ts'
import { reconcile } from '../../../../src/agentk/modules/gitops/reconcile.ts'
import type { InventoryEntry } from '../../../../src/agentk/modules/gitops/round.ts'
import { sourceOptions } from '../../../../src/agentk/modules/gitops/source-options.ts'
import { keyText, type ObjectKey } from '../../../../src/kubernetes/key.ts'
import { systemClock } from '../../../../src/lib/clock.ts'
import type { SourceBlock } from '../../../../src/proto/gitops/schema.ts'
import { configMap, Ground, keyOf, skip } from './ground.ts'

/** Commits in a row, on a real API server. */

interface Extra {
  readonly approved?: string
  readonly leftOut?: readonly string[]
  readonly branch?: string
  readonly useApproval?: () => Promise<void>
  readonly superseded?: AbortSignal
  readonly signal?: AbortSignal
  readonly newOwner?: string
  /** source whose commit is not known yet */
  readonly unread?: string
  readonly wantedByOthers?: readonly ObjectKey[]
  readonly hasRoom?: boolean
  /** ids of other sources that run too */
  readonly followed?: readonly string[]
}

class Source {
  readonly #ground: Ground
  readonly #project: bigint
  readonly #block: SourceBlock

  constructor(ground: Ground, project: number, block: SourceBlock = {}) {
    this.#ground = ground
    this.#project = BigInt(project)
    this.#block = { default_namespace: 'shop', prune_propagation_policy: 'background', ...block }
  }

  get options() {
    return sourceOptions(this.#block, { agentId: 42n, projectId: this.#project, ownProject: 'platform/shop' })
  }

  get inventory(): Inventory {
    return this.#inventoryOf(this.options.id)
  }

  #inventoryOf(id: string): Inventory {
    return new Inventory(this.#ground.lanes.lane('control'), { namespace: 'gitops', agentId: 42n, id })
  }

  entries(): Promise<ReadonlyMap<string, InventoryEntry>> {
    return this.inventory.load(new AbortController().signal)
  }

  async sync(files: Readonly<Record<string, string>>, extra: Extra = {}) {
    const { lanes, client } = this.#ground
    const [control, lane] = [lanes.lane('control'), lanes.lane('apply')]
    const { id } = this.options
    const waits = new ObjectWaits(
      { client, clock: systemClock, random: Math.random, watches: openWatches() },
      { selector: `${inventoryLabel}=${id}` },
    )
    const progress: string[] = []
    const kinds = new SharedKinds({ lane: control, clock: systemClock, signal: new AbortController().signal })
    const building = {
      kinds,
      render: async (all: readonly RepositoryFile[]) => ({ files: all, problems: [] }),
      read: async (job: ReadJob) => readManifests(job),
    }
    const result = await reconcile(
      {
        build: (all, signal) => buildCommit(building, all, this.options, signal),
        api: { ownLane: control, accountLane: lane, scanLane: control, waits, kinds },
        inventory: {
          own: this.inventory,
          of: (other) => (extra.followed?.includes(other) ? undefined : this.#inventoryOf(other)),
          clock: systemClock,
        },
        claims: {
          claim: () => undefined,
          isHandedOver: () => false,
          newOwner: () => extra.newOwner,
          unknownClaim: () => extra.unread,
          wanted: () => extra.wantedByOthers ?? [],
          stands: () => 'no',
          hasRoom: () => extra.hasRoom ?? true,
        },
        clock: systemClock,
      },
      {
        commit: createHash('sha1').update(JSON.stringify(files)).digest('hex'),
        files: Object.entries(files).map(([path, text]) => ({ path, data: Buffer.from(text) })),
        leftOut: extra.leftOut ?? [],
        ...(extra.branch !== undefined && { branch: extra.branch }),
        approved: extra.approved ?? '',
        useApproval: extra.useApproval ?? (async () => undefined),
        isSuspended: false,
        judge: async () => ({ kind: 'write' }),
        isDrifted: () => false,
        mayHaveCallsInFlight: false,
        superseded: extra.superseded ?? new AbortController().signal,
        onStep: (step) => {
          if (step.kind !== 'began') progress.push(step.key.name)
        },
      },
      this.options,
      extra.signal ?? new AbortController().signal,
    )
    return { result, progress }
  }

  async done(files: Readonly<Record<string, string>>, extra: Extra = {}) {
    const { result, progress } = await this.sync(files, extra)
    if (result.kind !== 'done') throw new Error(JSON.stringify(result))
    const ends = Object.fromEntries(result.ends.map(({ manifest, end }) => [manifest.key.name, end]))
    const kinds = Object.fromEntries(Object.entries(ends).map(([name, end]) => [name, end.kind]))
    return { ...result, ends, kinds, progress }
  }
}

const map = (name: string, value: string, annotations = '') => `
apiVersion: v1
kind: ConfigMap
metadata: { name: ${name}${annotations && `, annotations: { ${annotations} }`} }
data: { value: "${value}" }
`
const crd = `
apiVersion: apiextensions.k8s.io/v1
kind: CustomResourceDefinition
metadata: { name: gadgets.round.example.com }
spec:
  group: round.example.com
  scope: Namespaced
  names: { plural: gadgets, kind: Gadget, singular: gadget }
  versions: [{ name: v1, served: true, storage: true, schema: { openAPIV3Schema: { type: object, x-kubernetes-preserve-unknown-fields: true } } }]
`
const gadget = `
apiVersion: round.example.com/v1
kind: Gadget
metadata: { name: one }
spec: { size: 1 }
`

t.test('a round', { skip, timeout: 300_000 }, async (t) => {
  const ground = await Ground.start(t)
  for (const name of ['shop', 'gitops']) await ground.create(keyOf('Namespace', name, ''), { metadata: { name } })
  const asked = async <T>(work: () => Promise<T>) => {
    ground.asked.length = 0
    const result = await work()
    return { result, writes: ground.writes(), calls: ground.asked.length }
  }
  const value = async (name: string) => (await ground.get(keyOf('ConfigMap', name)))?.data.value

  await t.test('a commit, the same again, one that changes it', async (t) => {
    const source = new Source(ground, 1)
    const files = { 'a.yaml': map('a', '1'), 'b.yaml': map('b', '1') }
    t.match(await source.done(files), { kinds: { a: 'applied', b: 'applied' }, pruned: [], planDigest: '' })
    const again = await asked(() => source.done(files))
    t.match(again.result.kinds, { a: 'unchanged', b: 'unchanged' })
    t.strictSame(again.writes, [])
    t.ok(again.calls <= 8, `${again.calls} calls`)
    const changed = await asked(() => source.done({ ...files, 'b.yaml': map('b', '2') }))
    t.match(changed.result.kinds, { a: 'unchanged', b: 'applied' })
    t.strictSame([await value('a'), await value('b')], ['1', '2'])
    const { pruned } = await source.done({ 'b.yaml': map('b', '2') })
    t.match(pruned, [{ name: 'a' }])
    t.equal(await value('a'), undefined)
    t.strictSame([...(await source.entries()).keys()], ['/ConfigMap/shop/b'])
  })

  await t.test('while a link is not read that was none before, nothing goes without approval', async (t) => {
    const source = new Source(ground, 90)
    const files = { 'a.yaml': map('linked', '1'), 'b.yaml': map('unlinked', '1') }
    await source.done(files)
    const leftOut = ['a.yaml is a link to ../a.yaml, which is outside of the repository']
    const left = { 'b.yaml': files['b.yaml'] }
    const waiting = await source.done(left, { leftOut })
    t.match([waiting.pruned, waiting.notes], [[], leftOut])
    t.match([...waiting.reasons.values()], [{ code: 'chosenAnew' }])
    t.match((await source.done(left, { leftOut, approved: waiting.planDigest })).pruned, [{ name: 'linked' }])
    t.match((await source.done({}, { leftOut })).planDigest, /^[0-9a-f]{64}$/, 'all of it still asks')
    const more = { ...left, 'c.yaml': map('unlinked-too', '1') }
    await source.done(more, { leftOut })
    t.match(
      (await source.done(left, { leftOut })).pruned,
      [{ name: 'unlinked-too' }],
      'the same link holds nothing more',
    )
  })

  await t.test('what is wrong with a Secret is said without its values', async (t) => {
    const source = new Source(ground, 93)
    const secret = (name: string, more: string) =>
      `apiVersion: v1\nkind: Secret\nmetadata: { name: ${name} }\n${more}\n`
    const { ends } = await source.done({
      'sops.yaml': secret('sops', 'data: { a: "ENC[AES256_GCM,data:x]" }\nsops: { mac: "ENC[x]" }'),
      'key.yaml': secret('key', 'stringData: { "a b": hidden }'),
      'tls.yaml': secret('tls', 'type: kubernetes.io/tls\nstringData: { tls.crt: hidden }'),
    })
    const texts = {
      sops: /^it is encrypted by SOPS/,
      key: /^data\[…\]: Invalid value; keys and values of Secrets are not shown/,
      tls: /^data\[…\]: Required value; keys and values of Secrets are not shown/,
    }
    for (const [name, text] of Object.entries(texts)) t.match(ends[name], { problem: { text } }, name)
    const shown = JSON.stringify(ends)
    for (const content of ['hidden', 'a b', 'tls.key']) t.notMatch(shown, content)
  })

  await t.test('annotations of Flux and Argo CD: heeded, or named', async (t) => {
    const source = new Source(ground, 92)
    const ssa = 'kustomize.toolkit.fluxcd.io/ssa'
    const files = (value: string) => ({
      'once.yaml': map('once', value, `${ssa}: IfNotPresent`),
      'ignored.yaml': map('ignored', value, `${ssa}: Ignore`),
      'disabled.yaml': map('disabled', value, 'kustomize.toolkit.fluxcd.io/reconcile: disabled'),
      'theirs.yaml': map('theirs', value, `${ssa}: IfNotPresent`),
      'forced.yaml': map('forced', value, 'kustomize.toolkit.fluxcd.io/force: enabled'),
      'replaced.yaml': map('replaced', value, 'argocd.argoproj.io/sync-options: "Replace=true,CreateNamespace=true"'),
    })
    await ground.create(keyOf('ConfigMap', 'theirs'), configMap('theirs', { value: 'own' }))
    const first = await source.done(files('1'))
    t.match(first.kinds, { once: 'applied', ignored: 'unchanged', disabled: 'unchanged', theirs: 'unchanged' })
    await ground.merge(keyOf('ConfigMap', 'once'), { data: { value: 'rotated' } }, 'kubectl-edit')
    const { notes } = await source.done(files('2'))
    t.strictSame(
      [
        await value('once'),
        await value('ignored'),
        await value('disabled'),
        await value('theirs'),
        await value('forced'),
      ],
      ['rotated', undefined, undefined, 'own', '2'],
    )
    t.strictSame(notes.map((note) => /^\S+ \S+/.exec(note)?.[0]).length, 5)
    t.match(
      notes.join('\n'),
      /ignored is not applied[\s\S]*forced has an annotation without effect[\s\S]*a Namespace is a manifest/,
    )
    const { pruned } = await source.done({ 'forced.yaml': files('2')['forced.yaml'] }, {})
    t.notMatch(JSON.stringify(pruned), 'theirs')
    t.equal(await value('theirs'), 'own', 'what others have made stays when it leaves Git')
  })

  await t.test(
    'what somebody has disabled in the cluster, as Flux has it, is neither applied nor pruned',
    async (t) => {
      const source = new Source(ground, 94, { prune_limit: '100%' })
      const flux = 'kustomize.toolkit.fluxcd.io'
      const marks = {
        annotated: { annotations: { [`${flux}/reconcile`]: 'disabled' } },
        labelled: { labels: { [`${flux}/reconcile`]: 'Disabled' } },
        untouched: { annotations: { [`${flux}/ssa`]: 'Ignore' } },
      }
      const files = (value: string) => ({
        'all.yaml': Object.keys(marks)
          .map((name) => map(`live-${name}`, value))
          .join('---\n'),
        'free.yaml': map('live-free', value),
      })
      await source.done(files('1'))
      for (const [name, metadata] of Object.entries(marks))
        await ground.merge(keyOf('ConfigMap', `live-${name}`), { metadata }, 'kubectl-annotate')
      const { notes, kinds } = await source.done(files('2'))
      t.match(kinds, { 'live-annotated': 'unchanged', 'live-free': 'applied' })
      for (const name of Object.keys(marks)) t.equal(await value(`live-${name}`), '1', name)
      t.match(notes, [/^ConfigMap shop\/live-annotated is not applied, as its annotation of Flux in the cluster says$/])
      t.equal(notes.length, 3)
      const { pruned } = await source.done({ 'free.yaml': files('2')['free.yaml'] })
      t.strictSame(
        pruned.map(({ name }) => name),
        ['live-untouched'],
        'as Flux, which prunes what it ignores',
      )
      const freed = { metadata: { annotations: { [`${flux}/reconcile`]: null } } }
      await ground.merge(keyOf('ConfigMap', 'live-annotated'), freed, 'kubectl-annotate')
      await source.done(files('3'))
      t.strictSame([await value('live-annotated'), await value('live-labelled')], ['3', '1'], 'once it is enabled')
    },
  )

  await t.test('rules of an aggregated role are their controller’s', async (t) => {
    const source = new Source(ground, 91)
    const role = (label: string) => `
apiVersion: rbac.authorization.k8s.io/v1
kind: ClusterRole
metadata: { name: aggregated, labels: { a: ${label} } }
aggregationRule: { clusterRoleSelectors: [{ matchLabels: { to: aggregated } }] }
rules: []
`
    const key = keyOf('ClusterRole', 'aggregated', '', 'rbac.authorization.k8s.io')
    await source.done({ 'role.yaml': role('one') })
    const rules = [{ apiGroups: [''], resources: ['pods'], verbs: ['get'] }]
    const written = {
      apiVersion: 'rbac.authorization.k8s.io/v1',
      kind: 'ClusterRole',
      metadata: { name: 'aggregated' },
      rules,
    }
    await ground.apply(key, written, 'clusterrole-aggregation-controller')
    const watched: unknown[] = []
    ground.onAsk = async () => void watched.push((await ground.get(key)).rules)
    await source.done({ 'role.yaml': role('two') })
    ground.onAsk = () => undefined
    t.match(await ground.get(key), { metadata: { labels: { a: 'two' } }, rules })
    for (const seen of watched) t.strictSame(seen, rules)
  })

  await t.test('what was changed by hand is applied again, also where its fields are as they were', async (t) => {
    const source = new Source(ground, 2)
    const files = { 'a.yaml': map('hand', '1') }
    await source.done(files)
    await ground.merge(keyOf('ConfigMap', 'hand'), { data: { value: '2' } }, 'kubectl-edit')
    t.match((await source.done(files)).kinds, { hand: 'applied' })
    t.equal(await value('hand'), '1')
  })

  await t.test('a kind, its objects, and both away again', async (t) => {
    const source = new Source(ground, 3)
    const files = { 'crd.yaml': crd, 'one.yaml': gadget, 'a.yaml': map('beside', '1') }
    t.match((await source.done(files)).kinds, { 'gadgets.round.example.com': 'applied', one: 'applied' })
    await ground.readKinds()
    const left = { 'a.yaml': map('beside', '1') }
    const waiting = await source.done(left)
    t.match(waiting.pruned, [])
    t.match(waiting.planDigest, /^[0-9a-f]{64}$/)
    t.strictSame(waiting.awaitingApproval.map(({ key }) => key.kind).sort(), ['CustomResourceDefinition', 'Gadget'])
    t.ok(await ground.get(keyOf('Gadget', 'one', 'shop', 'round.example.com')))
    for (const approved of ['another', waiting.planDigest.slice(0, 16)]) {
      let isUsed = false
      const useApproval = async () => {
        isUsed = true
      }
      t.match((await source.done(left, { approved, useApproval })).pruned, [])
      t.equal(isUsed, true, 'nor is it good for a later plan')
    }
    const refused = { approved: waiting.planDigest, useApproval: () => Promise.reject(new Error('not taken back')) }
    await t.rejects(source.done(left, refused), /not taken back/)
    t.ok(await ground.get(keyOf('Gadget', 'one', 'shop', 'round.example.com')))
    const { pruned, planDigest } = await source.done(left, { approved: waiting.planDigest })
    t.strictSame(
      pruned.map(({ kind }) => kind),
      ['Gadget', 'CustomResourceDefinition'],
    )
    t.equal(planDigest, '')
    t.strictSame([...(await source.entries()).keys()], ['/ConfigMap/shop/beside'])
  })

  await t.test('a commit that is wrong is refused as a whole, and nothing goes', async (t) => {
    const source = new Source(ground, 4)
    await source.done({ 'a.yaml': map('held', '1'), 'b.yaml': map('held-too', '1') })
    const { result, writes } = await asked(() => source.sync({ 'a.yaml': map('held', '2'), 'b.yaml': 'kind: [' }))
    t.match(result, { result: { kind: 'refused', problems: [{ file: 'b.yaml' }] } })
    t.strictSame(writes, [])
    t.equal(await value('held'), '1')
    // nothing is pruned either when one object fails
    const partly = await source.done({ 'a.yaml': map('held', '3'), 'x.yaml': map('Bad_Name', '1') })
    t.match(partly.kinds, { held: 'applied', Bad_Name: 'failed' })
    t.match(partly.pruned, [])
    t.equal(await value('held-too'), '1')
    // an empty commit waits for approval
    t.match(await source.done({}), { pruned: [], planDigest: /./ })
    t.equal(await value('held-too'), '1')
  })

  await t.test('what depends on an object that fails is not begun', async (t) => {
    const source = new Source(ground, 5)
    const after = map('after', '1', 'config.kubernetes.io/depends-on: /namespaces/shop/ConfigMap/Bad_Name')
    const { kinds, ends } = await source.done({
      'a.yaml': map('Bad_Name', '1'),
      'b.yaml': after,
      'c.yaml': map('free', '1'),
    })
    t.match(kinds, { Bad_Name: 'failed', after: 'waits', free: 'applied' })
    t.match(ends.after, { text: /ConfigMap shop\/Bad_Name has failed/ })
    t.equal(await value('after'), undefined)
  })

  await t.test('what goes to another source is not deleted', async (t) => {
    const [one, other] = [new Source(ground, 6), new Source(ground, 7, { adopt: ['42-6'] })]
    await one.done({ 'a.yaml': map('moved', '1'), 'b.yaml': map('kept', '1') })
    const held = await one.done({ 'b.yaml': map('kept', '1') }, { unread: 'somebody may want it' })
    t.match(held, { pruned: [], isWaitingForOthers: true })
    t.match(held.entries.get('/ConfigMap/shop/moved'), { state: 'waits', reason: 'somebody may want it' })
    t.match((await one.done({ 'b.yaml': map('kept', '1') }, { newOwner: '42-7' })).pruned, [])
    t.equal(await value('moved'), '1')
    t.match((await other.done({ 'a.yaml': map('moved', '2') })).kinds, { moved: 'applied' })
    t.match((await one.done({ 'b.yaml': map('kept', '1') })).pruned, [])
    t.equal(await value('moved'), '2')
    t.strictSame([...(await one.entries()).keys()], ['/ConfigMap/shop/kept'])
  })

  await t.test('a source by another name: what it had is known to it, and goes with approval alone', async (t) => {
    const files = { 'a.yaml': map('named-a', '1'), 'b.yaml': map('named-b', '1'), 'c.yaml': map('named-c', '1') }
    const { 'c.yaml': _, ...two } = files
    await new Source(ground, 12).done(files)
    const { uid } = (await ground.get(keyOf('ConfigMap', 'named-a'))).metadata
    const renamed = new Source(ground, 12, { name: 'web', adopt: ['42-12', 'kustomize-controller'] })
    const beside = await renamed.done(two, { followed: ['42-12'] })
    t.match(
      beside,
      { kinds: { 'named-a': 'applied', 'named-b': 'applied' }, awaitingApproval: [] },
      'one that runs lets go itself',
    )
    const first = await renamed.done(two)
    t.strictSame(first.pruned, [])
    t.match(first.awaitingApproval, [{ key: { name: 'named-c' }, reason: 'inventory 42-12 has made it' }])
    t.equal((await ground.get(keyOf('ConfigMap', 'named-a'))).metadata.uid, uid)
    const again = await asked(() => renamed.done(two))
    t.equal(again.result.planDigest, first.planDigest)
    t.strictSame(again.writes, [])
    t.ok(again.calls <= 8, `${again.calls} calls: it is not read again`)
    t.equal(await value('named-c'), '1')
    t.match((await renamed.done(two, { approved: first.planDigest })).pruned, [{ name: 'named-c' }])
    t.match(
      (await new Source(ground, 12).done(two)).kinds,
      { 'named-a': 'failed' },
      'the old one has nothing of it any more',
    )
    t.match((await new Source(ground, 12).done({ 'd.yaml': map('named-d', '1') })).pruned, [])
    t.strictSame([await value('named-a'), await value('named-b')], ['1', '1'])
  })

  await t.test('what the stock agent has made for another agent: known, and goes with approval alone', async (t) => {
    const owned = { annotations: { 'config.k8s.io/owning-inventory': '41-13' } }
    for (const name of ['old-a', 'old-b']) {
      const object = { apiVersion: 'v1', kind: 'ConfigMap', metadata: { name, namespace: 'shop', ...owned }, data: {} }
      await ground.apply(keyOf('ConfigMap', name), object, 'agentk')
    }
    await ground.create(keyOf('ConfigMap', 'inventory-41-13'), {
      metadata: { name: 'inventory-41-13', labels: { 'cli-utils.sigs.k8s.io/inventory-id': '41-13' } },
      data: { 'shop_old-a__ConfigMap': '', 'shop_old-b__ConfigMap': '' },
    })
    const source = new Source(ground, 13, { adopt: ['41-13'] })
    const { kinds, pruned, awaitingApproval } = await source.done({ 'a.yaml': map('old-a', '1') })
    t.match({ kinds, pruned }, { kinds: { 'old-a': 'applied' }, pruned: [] })
    t.match(awaitingApproval, [{ key: { name: 'old-b' }, reason: 'inventory 41-13 has made it' }])
  })

  await t.test('a namespace stays as long as another source wants what is in it', async (t) => {
    const home = (name: string) => `{ apiVersion: v1, kind: Namespace, metadata: { name: ${name} } }`
    const source = new Source(ground, 14, { prune_confirm: [] })
    await source.done({ 'a.yaml': map('at-home', '1'), 'n.yaml': home('home') })
    const left = { 'a.yaml': map('at-home', '1') }
    const held = await source.done(left, { wantedByOthers: [keyOf('ConfigMap', 'theirs', 'home')] })
    t.match(held, { pruned: [], planDigest: '' })
    t.match(held.entries.get('/Namespace//home'), {
      state: 'waits',
      reason: 'ConfigMap home/theirs stays, and would be deleted with it',
    })
    const { metadata } = await ground.get(keyOf('Namespace', 'home', ''))
    t.equal(metadata.deletionTimestamp, undefined)
  })

  await t.test('the sources of an agent want 10,000 objects at most together', async (t) => {
    const source = new Source(ground, 15)
    await source.done({ 'a.yaml': map('few', '1') })
    const more = { 'a.yaml': map('few', '3'), 'b.yaml': map('many', '1') }
    const { result, writes } = await asked(() => source.sync(more, { hasRoom: false }))
    t.match(result, {
      result: {
        kind: 'refused',
        isWaitingForOthers: true,
        problems: [{ text: /more than 10000 objects: with the 2 of this one/ }],
      },
    })
    t.strictSame(writes, [])
  })

  await t.test('what a change of the configuration leaves out waits for approval, until it is given', async (t) => {
    const files = { 'a.yaml': map('chosen', '1'), 'b.yaml': map('left-out', '1') }
    await new Source(ground, 10).done(files)
    const narrowed = new Source(ground, 10, { paths: [{ file: 'a.yaml' }] })
    const one = { 'a.yaml': map('chosen', '1') }
    const waiting = await narrowed.done(one)
    t.match(waiting, { pruned: [], awaitingApproval: [{ key: { name: 'left-out' } }] })
    t.equal((await narrowed.done(one)).planDigest, waiting.planDigest, 'it is asked again')
    t.match((await narrowed.done(one, { approved: waiting.planDigest })).pruned, [{ name: 'left-out' }])
    await narrowed.done(files)
    t.match((await narrowed.done(one)).pruned, [{ name: 'left-out' }], 'and from then on it is as ever')
  })

  await t.test(
    'it waits also once others have said what they want, and where a newer commit came between',
    async (t) => {
      const files = { 'a.yaml': map('anew-chosen', '1'), 'b.yaml': map('anew-held', '1') }
      await new Source(ground, 116).done(files)
      const narrowed = new Source(ground, 116, { paths: [{ file: 'a.yaml' }] })
      const one = { 'a.yaml': map('anew-chosen', '1') }
      const held = await narrowed.done(one, { unread: 'what source b wants is not known yet' })
      t.match(held, { pruned: [], planDigest: '', isWaitingForOthers: true })
      const waiting = await narrowed.done(one)
      t.match(waiting, { pruned: [], awaitingApproval: [{ key: { name: 'anew-held' } }] })
      const newer = AbortSignal.abort(new Error('a newer commit has come'))
      t.match((await narrowed.done(one, { approved: waiting.planDigest, superseded: newer })).pruned, [])
      t.match(await narrowed.done(one), { pruned: [], planDigest: waiting.planDigest })
      t.ok(await ground.get(keyOf('ConfigMap', 'anew-held')))
    },
  )

  await t.test('an approval that nothing could be compared with is not used up', async (t) => {
    const files = { 'a.yaml': map('kept-on', '1'), 'b.yaml': map('asked-for', '1', 'agent.gitlab.com/prune: confirm') }
    const source = new Source(ground, 117)
    await source.done(files)
    const one = { 'a.yaml': map('kept-on', '1') }
    const { planDigest } = await source.done(one)
    let used = 0
    const useApproval = async () => {
      used += 1
    }
    await source.done(one, { approved: planDigest, useApproval, unread: 'what source b wants is not known yet' })
    t.equal(used, 0)
    t.match((await source.done(one, { approved: planDigest, useApproval })).pruned, [{ name: 'asked-for' }])
    t.equal(used, 1)
    await source.done(one, { approved: planDigest, useApproval })
    t.equal(used, 2, 'one that is of another plan is')
  })

  await t.test('what other tools protect stays, by annotation in Git or on the object alone', async (t) => {
    const argo = 'argocd.argoproj.io/sync-options'
    const flux = 'kustomize.toolkit.fluxcd.io/prune'
    const helm = 'helm.sh/resource-policy'
    const marks = [
      ...['Prune=false', 'Delete=false', 'Prune=false,Delete=false', 'Validate=false,Prune=false'],
      ...['Validate=false, Delete=false', 'Prune=false ,Replace=true'],
    ].map((value) => [argo, value] as const)
    const protectedBy = [...marks, [flux, 'disabled'], [flux, 'Disabled'], [helm, 'keep'], [helm, ' Keep ']] as const
    const names = protectedBy.map((_, i) => `kept-${i}`)
    const later = protectedBy.map((_, i) => `kept-later-${i}`)
    const files = {
      'a.yaml': map('goes', '1'),
      'b.yaml': map('stays', '1'),
      'kept.yaml': protectedBy
        .map(([name, value], i) => map(names[i] as string, '1', `${name}: "${value}"`))
        .join('---\n'),
      'later.yaml': later.map((name) => map(name, '1')).join('---\n'),
      'confirm.yaml': map('asks', '1', `${argo}: "Prune=confirm"`),
    }
    const source = new Source(ground, 150, { prune_limit: 100 })
    await source.done(files)
    for (const [i, [name, value]] of protectedBy.entries()) {
      await ground.merge(keyOf('ConfigMap', later[i] as string), { metadata: { annotations: { [name]: value } } })
    }
    const { pruned, awaitingApproval } = await source.done({ 'b.yaml': map('stays', '1') })
    t.match(pruned, [{ name: 'goes' }])
    t.equal(pruned.length, 1)
    t.match(awaitingApproval, [{ key: { name: 'asks' } }])
    for (const name of [...names, ...later]) t.ok(await ground.get(keyOf('ConfigMap', name)), name)
    t.equal([...names, ...later].length, 20)
    for (const [text, { state, reason }] of await source.entries())
      if (text.includes('kept-')) t.match({ state, reason }, { state: 'waits', reason: /never/ }, text)
  })

  await t.test('until then the options of before hold, of what is chosen alone', async (t) => {
    const files = { 'a.yaml': map('opted', '1'), 'b.yaml': map('opted-out', '1') }
    await new Source(ground, 118, { on_removal: 'prune' }).done(files)
    const narrowed = new Source(ground, 118, { paths: [{ file: 'a.yaml' }], on_removal: 'keep' })
    t.not((await narrowed.done({ 'a.yaml': map('opted', '1') })).planDigest, '')
    const { inventory } = narrowed
    await inventory.load(new AbortController().signal)
    t.match(inventory.options, { onRemoval: 'keep', paths: [{ glob: '**/*.{yaml,yml,json}' }] })
  })

  await t.test('what only a new object can have: deleted and made again, where the manifest says so', async (t) => {
    const source = new Source(ground, 11)
    const job = (image: string, annotations = '') => `
apiVersion: batch/v1
kind: Job
metadata: { name: again, annotations: { ${annotations} } }
spec: { template: { spec: { restartPolicy: Never, containers: [{ name: a, image: "${image}" }] } } }
`
    const key = keyOf('Job', 'again', 'shop', 'batch')
    const replace = 'agent.gitlab.com/replace: allow'
    await source.done({ 'a.yaml': job('a:1') })
    const first = await ground.get(key)
    t.match((await source.done({ 'a.yaml': job('a:2') })).ends.again, {
      kind: 'failed',
      problem: { kind: 'immutable' },
    })
    t.equal((await ground.get(key)).metadata.uid, first.metadata.uid)
    // an object that could not be made again stays
    const bad = await source.done({ 'a.yaml': job('', replace) })
    t.match(bad.ends.again, { kind: 'failed', problem: { text: /it stays: .*image/ } })
    t.equal((await ground.get(key)).metadata.uid, first.metadata.uid)
    // an object that its manifest marks `never` stays too
    const never = await source.done({ 'a.yaml': job('a:2', `${replace}, agent.gitlab.com/prune: never`) })
    t.match(never.ends.again, { kind: 'failed', problem: { text: /never to delete it/ } })
    t.match((await source.done({ 'a.yaml': job('a:2', replace) })).kinds, { again: 'applied' })
    const second = await ground.get(key)
    t.not(second.metadata.uid, first.metadata.uid)
    t.equal(second.spec.template.spec.containers[0].image, 'a:2')
    t.match((await source.done({ 'a.yaml': job('a:2', replace) })).kinds, { again: 'unchanged' })
    // objects of others are not deleted
    await ground.merge(key, { metadata: { annotations: { 'config.k8s.io/owning-inventory': null } } })
    const foreign = await source.done({ 'a.yaml': job('a:3', replace) })
    t.match(foreign.ends.again, { kind: 'failed', problem: { text: /this source has not made it/ } })
    t.equal((await ground.get(key)).metadata.uid, second.metadata.uid)
  })

  await t.test('an address of a Service is told to be one of these, and how it could be had', async (t) => {
    const source = new Source(ground, 151)
    const service = (address: string, annotations = '') => `
apiVersion: v1
kind: Service
metadata: { name: placed, annotations: { ${annotations} } }
spec: { ${address}ports: [{ port: 80 }] }
`
    await source.done({ 'a.yaml': service('clusterIP: 10.0.0.7, ') })
    const key = keyOf('Service', 'placed')
    const { uid } = (await ground.get(key)).metadata
    const address = 'clusterIP: 10.0.0.8, '
    t.match((await source.done({ 'a.yaml': service(address) })).ends.placed, {
      kind: 'failed',
      problem: {
        kind: 'immutable',
        text: /spec\.clusterIPs\[0\]: Invalid value: ….*: may not change once set; agent\.gitlab\.com\/replace: allow on it/,
      },
    })
    t.equal((await ground.get(key)).metadata.uid, uid)
    const again = service(address, 'agent.gitlab.com/replace: allow')
    t.match((await source.done({ 'a.yaml': again })).kinds, { placed: 'applied' })
    t.equal((await ground.get(key)).spec.clusterIP, '10.0.0.8')
  })

  await t.test('and of a kind of prune_confirm, or by its annotation, once somebody approves', async (t) => {
    const source = new Source(ground, 12)
    const files = (name: string) => ({
      'a.yaml': `
apiVersion: rbac.authorization.k8s.io/v1
kind: RoleBinding
metadata: { name: bound, annotations: { agent.gitlab.com/replace: allow, agent.gitlab.com/prune: confirm } }
roleRef: { apiGroup: rbac.authorization.k8s.io, kind: ClusterRole, name: ${name} }
`,
      'b.yaml': map('after-bound', '1', 'argocd.argoproj.io/sync-wave: "1"'),
    })
    const key = keyOf('RoleBinding', 'bound', 'shop', 'rbac.authorization.k8s.io')
    await source.done(files('view'))
    const { uid } = (await ground.get(key)).metadata
    const asking = await source.done(files('edit'))
    t.match(asking, {
      kinds: { bound: 'failed' },
      planDigest: /^[0-9a-f]{64}$/,
      awaitingApproval: [{ key: { name: 'bound' } }],
    })
    t.equal((await ground.get(key)).metadata.uid, uid)
    t.equal((await source.done(files('edit'), { approved: 'another' })).planDigest, asking.planDigest)
    t.equal((await ground.get(key)).metadata.uid, uid)
    const approved = await source.done(files('edit'), { approved: asking.planDigest })
    t.match(approved, { kinds: { bound: 'applied' }, planDigest: '', awaitingApproval: [] })
    t.equal((await ground.get(key)).roleRef.name, 'edit')
    // an approval counts once
    t.not((await source.done(files('admin'), { approved: asking.planDigest })).planDigest, '')
    t.equal((await ground.get(key)).roleRef.name, 'edit')
  })

  await t.test('a commit that would make it again cannot itself say that nobody need approve', async (t) => {
    const source = new Source(ground, 119, { prune_confirm: ['RoleBinding'] })
    const files = (name: string, annotations: string) => ({
      'a.yaml': `
apiVersion: rbac.authorization.k8s.io/v1
kind: RoleBinding
metadata: { name: released, annotations: { ${annotations} } }
roleRef: { apiGroup: rbac.authorization.k8s.io, kind: ClusterRole, name: ${name} }
`,
    })
    const key = keyOf('RoleBinding', 'released', 'shop', 'rbac.authorization.k8s.io')
    const both = 'agent.gitlab.com/replace: allow, agent.gitlab.com/prune: allow'
    await source.done(files('view', ''))
    t.match((await source.done(files('edit', both))).ends.released, {
      kind: 'failed',
      problem: { text: /waits for approval: prune_confirm: RoleBinding/ },
    })
    t.equal((await ground.get(key)).roleRef.name, 'view')
    await source.done(files('view', both))
    t.match((await source.done(files('edit', both))).kinds, { released: 'applied' }, 'one before it may')
  })

  await t.test('killed at any call while an object is made again, it is there in the end', async (t) => {
    const job = (image: string) => ({
      'a.yaml': `
apiVersion: batch/v1
kind: Job
metadata: { name: killed, annotations: { agent.gitlab.com/replace: allow } }
spec: { template: { spec: { restartPolicy: Never, containers: [{ name: a, image: "${image}" }] } } }
`,
    })
    const source = new Source(ground, 13)
    await source.done(job('a:0'))
    for (let at = 1; ; at++) {
      const killed = new AbortController()
      let calls = 0
      ground.onAsk = () => {
        calls += 1
        if (calls === at) killed.abort(new Error('killed'))
      }
      const wasKilled = await source.done(job(`a:${at}`), { signal: killed.signal }).then(
        () => false,
        () => true,
      )
      ground.onAsk = () => undefined
      t.match((await source.done(job(`a:${at}`))).kinds, { killed: /^(?:applied|unchanged)$/ }, `at ${at}`)
      const live = await ground.get(keyOf('Job', 'killed', 'shop', 'batch'))
      t.equal(live.spec.template.spec.containers[0].image, `a:${at}`, `at ${at}`)
      if (!wasKilled) break
      t.ok(at < 40)
    }
  })

  await t.test('another branch waits for approval with what it leaves out; another tag is a deployment', async (t) => {
    const files = { 'a.yaml': map('of-main', '1'), 'b.yaml': map('left-out', '1') }
    const one = { 'a.yaml': map('of-main', '1') }
    await new Source(ground, 16).done(files)
    const waiting = await new Source(ground, 16, { ref: { branch: 'dev' } }).done(one)
    t.match(waiting, { pruned: [], awaitingApproval: [{ key: { name: 'left-out' } }] })
    t.match(
      await new Source(ground, 16).done(one),
      { pruned: [{ name: 'left-out' }], planDigest: '' },
      'the branch itself says so',
    )
    await new Source(ground, 16, { ref: { tag: 'v1' } }).done(files)
    t.match((await new Source(ground, 16, { ref: { tag: 'v2' } }).done(one)).pruned, [{ name: 'left-out' }])
  })

  await t.test(
    'another default branch waits as another branch does; one that is named, or not known, does not',
    async (t) => {
      const files = { 'a.yaml': map('of-default', '1'), 'b.yaml': map('not-there', '1') }
      const one = { 'a.yaml': files['a.yaml'] }
      const byDefault = new Source(ground, 96)
      const named = (branch: string) => new Source(ground, 96, { ref: { branch } })
      const goes = [{ name: 'not-there' }]
      await byDefault.done(files)
      t.match((await byDefault.done(one, { branch: 'main' })).pruned, goes, 'the inventory names no branch yet')
      await byDefault.done(files, { branch: 'main' })
      const waiting = await byDefault.done(one, { branch: 'trunk' })
      t.match([waiting.pruned, waiting.awaitingApproval], [[], [{ key: { name: 'not-there' } }]])
      const text = 'the default branch of the project is trunk now, and was main'
      t.match([...waiting.reasons.values()], [{ code: 'chosenAnew', text }])
      t.match(await byDefault.done(one, { branch: 'trunk' }), { pruned: [] }, 'it waits still')
      t.match(await byDefault.done(one), { pruned: goes }, 'kas does not name it')
      await byDefault.done(files, { branch: 'main' })
      t.match(await named('main').done(one), { pruned: goes }, 'the same branch, named')
      await named('main').done(files)
      t.match(await byDefault.done(one, { branch: 'main' }), { pruned: goes }, 'and named no more')
      await byDefault.done(files, { branch: 'main' })
      t.match(await named('trunk').done(one), { pruned: [], awaitingApproval: [{}] }, 'another one, named')
      await byDefault.done(files, { branch: 'trunk' })
      t.match(await byDefault.done(one, { branch: 'trunk' }), { pruned: goes }, 'renamed with the same commit')
      await byDefault.done(files, { branch: 'trunk' })
      const asks = await byDefault.done(one, { branch: 'main' })
      t.match((await byDefault.done(one, { branch: 'main', approved: asks.planDigest })).pruned, goes)
      await byDefault.done(files, { branch: 'main' })
      t.match((await byDefault.done(one, { branch: 'main' })).pruned, goes, 'approved once')
    },
  )

  await t.test('what the stock agent has made is known, and goes when it leaves the repository', async (t) => {
    const source = new Source(ground, 8)
    const owned = { annotations: { 'config.k8s.io/owning-inventory': '42-8' } }
    for (const name of ['stock-a', 'stock-b']) {
      const object = { apiVersion: 'v1', kind: 'ConfigMap', metadata: { name, namespace: 'shop', ...owned }, data: {} }
      await ground.apply(keyOf('ConfigMap', name), object, 'agentk')
    }
    // a user's object with copied marks; the user also writes that inventory in the namespace
    const copied = configMap('stock-c', {}, owned)
    await ground.create(keyOf('ConfigMap', 'stock-c'), copied, 'kubectl')
    await ground.create(keyOf('ConfigMap', 'inventory-42-8'), {
      metadata: { name: 'inventory-42-8', labels: { 'cli-utils.sigs.k8s.io/inventory-id': '42-8' } },
      data: { 'shop_stock-a__ConfigMap': '', 'shop_stock-b__ConfigMap': '', 'shop_stock-c__ConfigMap': '' },
    })
    const { kinds, pruned } = await source.done({ 'a.yaml': map('stock-a', '1') })
    t.match(kinds, { 'stock-a': 'applied' })
    t.match(pruned, [{ name: 'stock-b' }])
    t.equal(pruned.length, 1)
    t.ok(await ground.get(keyOf('ConfigMap', 'stock-c')))
  })

  await t.test('what bears our marks and stands in no inventory is listed, and stays', async (t) => {
    const source = new Source(ground, 14)
    const files = { 'a.yaml': map('marked', '1'), 'b.yaml': map('orphaned', '1') }
    t.strictSame((await source.done(files)).orphans, [])
    const { inventory } = source
    await inventory.load(new AbortController().signal)
    await inventory.remove(new AbortController().signal)
    for (const applied of ['applied', 'unchanged']) {
      const { orphans, pruned, kinds } = await source.done({ 'a.yaml': map('marked', '1') })
      t.match(orphans, [{ kind: 'ConfigMap', name: 'orphaned' }])
      t.strictSame([kinds.marked, pruned.length], [applied, 0])
    }
    t.equal(await value('orphaned'), '1')
    t.strictSame((await source.done(files)).orphans, [])
  })

  await t.test('dry_run_strategy: what would be done is told, and nothing is written', async (t) => {
    const writing = new Source(ground, 9)
    await writing.done({
      'a.yaml': map('dry-same', '1'),
      'b.yaml': map('dry-goes', '1'),
      'c.yaml': map('dry-new', '1'),
    })
    const namespace = 'apiVersion: v1\nkind: Namespace\nmetadata: { name: dry }\n'
    const inside = 'apiVersion: v1\nkind: ConfigMap\nmetadata: { name: dry-inside, namespace: dry }\n'
    const files = {
      'a.yaml': map('dry-same', '1'),
      'c.yaml': map('dry-new', '2'),
      'd.yaml': map('Dry_Bad', '1'),
      'e.yaml': `${namespace}---\n${inside}`,
    }
    const ends = { 'dry-same': 'unchanged', 'dry-new': 'applied', dry: 'applied' }
    const told = {
      server: { ...ends, Dry_Bad: 'failed', 'dry-inside': 'waits' },
      client: { ...ends, Dry_Bad: 'applied', 'dry-inside': 'applied' },
    }
    for (const strategy of ['server', 'client'] as const) {
      const source = new Source(ground, 9, { dry_run_strategy: strategy })
      ground.asked.length = 0
      const { result, progress } = await source.sync(files)
      if (result.kind !== 'dryRun') throw new Error(result.kind)
      const kinds = Object.fromEntries(result.ends.map(({ manifest, end }) => [manifest.key.name, end.kind]))
      t.strictSame(kinds, told[strategy], strategy)
      t.strictSame(
        result.leaving.map(({ key }) => key.name),
        ['dry-goes'],
      )
      t.strictSame(progress, [])
      const writes = ground.asked.filter(({ method }) => method !== 'GET')
      t.ok(
        writes.every(({ path }) => path.includes('dryRun=All')),
        strategy,
      )
      t.equal(writes.length > 0, strategy === 'server')
    }
    t.strictSame([await value('dry-new'), await value('dry-goes')], ['1', '1'])
    t.equal(await ground.get(keyOf('Namespace', 'dry', '')), undefined)
    t.strictSame([...(await writing.entries()).keys()].length, 3)
  })

  await t.test('killed at any call, the next round ends where it would have ended', async (t) => {
    const names = ['k0', 'k1', 'k2', 'k3', 'k4', 'k5']
    const wave = (index: number) => `argocd.argoproj.io/sync-wave: "${index % 3}"`
    const filesOf = (all: readonly string[], content: string) =>
      Object.fromEntries(all.map((name, index) => [`${name}.yaml`, map(name, content, wave(index))]))
    for (let at = 1; ; at++) {
      const source = new Source(ground, 100 + at)
      const before = filesOf(names.slice(0, 4), 'before')
      const after = filesOf(names.slice(2), 'after')
      await source.done(before)
      const killed = new AbortController()
      let calls = 0
      ground.onAsk = () => {
        calls += 1
        if (calls === at) killed.abort(new Error('killed'))
      }
      const wasKilled = await source.done(after, { signal: killed.signal }).then(
        () => false,
        () => true,
      )
      ground.onAsk = () => undefined
      const { orphans } = await source.done(after)
      t.strictSame(orphans, [], `at ${at}`)
      const found = await Promise.all(names.map(value))
      t.strictSame(found, [undefined, undefined, 'after', 'after', 'after', 'after'], `at ${at}`)
      const wanted = names.slice(2).map((name) => keyText(keyOf('ConfigMap', name)))
      t.strictSame([...(await source.entries()).keys()].sort(), wanted, `at ${at}`)
      // the next source begins without objects
      const { planDigest } = await source.done({})
      await source.done({}, { approved: planDigest })
      if (!wasKilled) break
      t.ok(at < 100)
    }
  })
})
