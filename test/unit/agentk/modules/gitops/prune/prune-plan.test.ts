import t from 'tap'
import type { LiveObject } from '../../../../../../src/agentk/modules/gitops/live/live-object.ts'
import type { BlockCode, PruneOptions } from '../../../../../../src/agentk/modules/gitops/prune/blockers.ts'
import {
  type ApprovalCode,
  type PruneInput,
  planPrune,
} from '../../../../../../src/agentk/modules/gitops/prune/prune-plan.ts'
import type { InventoryEntry } from '../../../../../../src/agentk/modules/gitops/round.ts'
import { keyText } from '../../../../../../src/kubernetes/key.ts'

const options: PruneOptions = {
  id: '42-7',
  manager: 'agentk-42-7',
  adopt: ['40-7', 'helm'],
  dryRunStrategy: 'none',
  onRemoval: 'prune',
  prune: true,
  pruneConfirm: ['CustomResourceDefinition', 'Namespace'],
  pruneLimit: { percent: 50 },
  resourceExclusions: [],
}

const entry = (name: string, more: Partial<InventoryEntry> = {}, kind = 'ConfigMap', group = ''): InventoryEntry => ({
  key: { group, kind, namespace: kind === 'Namespace' || group === 'apiextensions.k8s.io' ? '' : 'shop', name },
  version: 'v1',
  uid: `uid-${name}`,
  wave: 0,
  digest: 'd',
  fields: 'f',
  state: 'applied',
  reason: '',
  ...more,
})

const liveOf = (name: string, more: Partial<LiveObject> = {}): LiveObject => ({
  uid: `uid-${name}`,
  resourceVersion: '1',
  owner: '42-7',
  digest: 'd',
  fields: 'f',
  fieldsTime: '',
  generation: 0,
  hasOtherWriters: false,
  replicasPath: 'spec.replicas',
  ownsReplicas: false,
  managers: ['agentk-42-7'],
  isControlled: false,
  isBeingDeleted: false,
  holds: '',
  isLeftAlone: false,
  prune: '',
  ...more,
})

interface Case {
  readonly entry?: Partial<InventoryEntry>
  readonly live?: Partial<LiveObject> | null
  readonly input?: Partial<PruneInput>
  readonly options?: Partial<PruneOptions>
}

function planOf(entries: readonly InventoryEntry[], { input = {}, live, ...rest }: Case = {}) {
  const all = new Map(entries.map(({ key }) => [keyText(key), live === null ? null : liveOf(key.name, live)] as const))
  const given: PruneInput = {
    commit: 'c1',
    entries,
    inventorySize: 100,
    wantedSize: 90,
    chosenAnew: undefined,
    isRemoval: false,
    wanted: [],
    mayHaveCallsInFlight: false,
    isChartPartial: false,
    isHook: () => false,
    failed: undefined,
    plural: () => undefined,
    live: all,
    appliedUids: new Set(),
    newOwner: () => undefined,
    unread: () => undefined,
    ...input,
  }
  return planPrune(given, { ...options, ...rest.options })
}

const decided = (given: Case, kind?: string) => {
  const one = entry('a', given.entry, kind)
  return planOf([one], given).decisions.get(keyText(one.key))
}

t.test('what has left the commit goes, if all that speaks against it is silent', async (t) => {
  t.match(decided({}), { kind: 'delete' })
  t.match(decided({ entry: { uid: '' } }), { kind: 'delete' })
  t.match(decided({ entry: { uid: '' }, live: { managers: ['agentk'] } }), { kind: 'delete' }, 'the stock agent has')
})

const kept: [what: string, given: Case, code: BlockCode, text: RegExp][] = [
  ['its owner annotation is gone', { live: { owner: '' } }, 'ownerChanged', /owner annotation/],
  [
    'nobody of ours has applied it',
    { entry: { uid: '' }, live: { managers: ['kubectl'] } },
    'unproven',
    /nothing shows/,
  ],
  ['it was made anew by somebody', { live: { uid: 'other' } }, 'uidChanged', /another object/],
  ['a controller keeps it', { live: { isControlled: true } }, 'controlled', /controller/],
  ['it cannot be read', { live: null }, 'unreadable', /cannot be read/],
  ['it is being deleted', { live: { isBeingDeleted: true } }, 'beingDeleted', /being deleted/],
  ['prune is off', { options: { prune: false } }, 'pruneOff', /prune: false/],
  ['its annotation says never', { live: { prune: 'never' } }, 'neverPrune', /never/],
  [
    'its source is gone: keep',
    { input: { isRemoval: true }, options: { onRemoval: 'keep' } },
    'sourceKept',
    /has left/,
  ],
  [
    'its source is gone: dry run',
    { input: { isRemoval: true }, options: { dryRunStrategy: 'server' } },
    'sourceKept',
    /has left the configuration/,
  ],
  ['it was detached', { entry: { state: 'detached', reason: 'why' } }, 'detached', /why/],
  [
    'its namespace left the configuration',
    { options: { namespaces: ['other'] } },
    'outOfReach',
    /outside the namespaces/,
  ],
  ['another source wants it', { input: { newOwner: () => '42-8' } }, 'newOwner', /42-8/],
  ['Pods use it', { input: { inUse: () => 'Pods of web-1' } }, 'rolloutRuns', /web-1/],
  ['another source may want it', { input: { unread: () => 'who knows' } }, 'sourceUnread', /who knows/],
  ['the chart may want it', { input: { isChartPartial: true } }, 'partialChart', /the chart may want it/],
  [
    'part of the commit has failed',
    { input: { failed: { neededBy: () => undefined, isAll: true } } },
    'commitFailed',
    /part/,
  ],
  ['it is a hook that is not run', { input: { isHook: () => true } }, 'hookNotRun', /not run here/],
  [
    'it may be on its way',
    { entry: { uid: '' }, input: { live: new Map(), mayHaveCallsInFlight: true } },
    'onItsWay',
    /on its way/,
  ],
]
for (const [what, given, code, text] of kept) {
  t.test(`it stays in the inventory: ${what}`, async (t) => {
    t.match(decided(given), { kind: 'blocked', blocked: { code, text } })
  })
}

t.test('it leaves the inventory: it is gone, of another, or the same object by another name', async (t) => {
  t.match(decided({ input: { live: new Map() } }), { kind: 'forget' })
  t.match(decided({ live: { owner: '41-7' } }), { kind: 'forget' })
  t.match(decided({ live: { owner: '41-7' }, entry: { state: 'detached' } }), { kind: 'forget' })
  t.match(decided({ input: { appliedUids: new Set(['uid-a']) } }), { kind: 'forget' })
  t.match(decided({ live: { owner: '' }, entry: { uid: '' } }), { kind: 'forget' }, 'it was never ours')
})

const confirmed: [what: string, given: Case, code: ApprovalCode, text: RegExp][] = [
  ['its annotation', { live: { prune: 'confirm' } }, 'annotated', /annotation/],
  ['an adopted inventory has made it', { live: { owner: '40-7' } }, 'adopted', /inventory 40-7 has made it/],
  [
    'it is in the way',
    { input: { failed: { neededBy: () => 'what comes needs what it holds', isAll: false } } },
    'neededByFailed',
    /needs/,
  ],
  ['the commit is empty', { input: { wantedSize: 0 } }, 'nothingWanted', /nothing at all/],
  [
    'its source is gone',
    { input: { isRemoval: true, wantedSize: 0 } },
    'sourceRemoved',
    /its source has left the configuration/,
  ],
  [
    'the configuration has changed',
    { input: { chosenAnew: 'the configuration chooses other manifests' } },
    'chosenAnew',
    /chooses other manifests/,
  ],
  ['the limit is a number', { options: { pruneLimit: { objects: 0 } } }, 'pruneLimit', /prune_limit: 1 of 100/],
]
for (const [what, given, code, text] of confirmed) {
  t.test(`it waits for approval: ${what}`, async (t) => {
    t.match(decided(given), { kind: 'confirm', reason: { code, text } })
  })
}

t.test('kinds of prune_confirm wait, unless the object allows it', async (t) => {
  t.match(decided({}, 'Namespace'), { kind: 'confirm', reason: { text: /prune_confirm: Namespace/ } })
  t.match(decided({ live: { prune: 'allow' } }, 'Namespace'), { kind: 'delete' })
})

t.test('more than a share of an inventory waits, small ones do not', async (t) => {
  const entries = ['a', 'b', 'c', 'd'].map((name) => entry(name))
  const kinds = (inventorySize: number) =>
    new Set([...planOf(entries, { input: { inventorySize } }).decisions.values()].map(({ kind }) => kind))
  t.strictSame(kinds(8), new Set(['delete']))
  t.strictSame(kinds(7), new Set(['confirm']))
  t.strictSame(kinds(5), new Set(['delete']))
})

t.test('what is in a namespace, or of a kind, waits with it', async (t) => {
  const crd = entry('widgets.example.com', {}, 'CustomResourceDefinition', 'apiextensions.k8s.io')
  const entries = [crd, entry('w', {}, 'Widget', 'example.com'), entry('other')]
  const { decisions } = planOf(entries)
  t.match(decisions.get('example.com/Widget/shop/w'), {
    kind: 'confirm',
    reason: { text: /goes with CustomResourceDefinition/ },
  })
  t.match(decisions.get('/ConfigMap/shop/other'), { kind: 'delete' })
  t.match(planOf([entry('shop', {}, 'Namespace'), entry('a')]).decisions.get('/ConfigMap/shop/a'), {
    kind: 'confirm',
    reason: { code: 'withParent', text: 'it goes with Namespace shop' },
  })
})

t.test('a namespace or a definition waits for approval with what is in it, or of its kind', async (t) => {
  const [home, claim, other] = [entry('shop', {}, 'Namespace'), entry('data', {}, 'PersistentVolumeClaim'), entry('a')]
  const { decisions } = planOf([home, claim, other], { options: { pruneConfirm: ['PersistentVolumeClaim'] } })
  t.match(decisions.get('/Namespace//shop'), {
    kind: 'confirm',
    reason: { code: 'withChild', text: 'PersistentVolumeClaim shop/data goes with it' },
  })
  t.match(decisions.get('/ConfigMap/shop/a'), { kind: 'confirm', reason: { text: 'it goes with Namespace shop' } })
  // the definition waits for approval, so its object waits, so the namespace waits
  const crd = entry('widgets.example.com', {}, 'CustomResourceDefinition', 'apiextensions.k8s.io')
  const all = planOf([home, crd, entry('w', {}, 'Widget', 'example.com'), other], {
    options: { pruneConfirm: ['CustomResourceDefinition'] },
  })
  t.strictSame(new Set([...all.decisions.values()].map(({ kind }) => kind)), new Set(['confirm']))
})

t.test('a namespace or a definition stays while anything that stays would go with it', async (t) => {
  const home = entry('shop', {}, 'Namespace')
  const of = (entries: readonly InventoryEntry[], given: Case = {}) => planOf(entries, given).decisions
  const stays = (child: string) => ({
    kind: 'blocked',
    blocked: { code: 'childStays', text: `${child} stays, and would be deleted with it` },
  })
  const text = '/Namespace//shop'
  t.match(of([home], { input: { wanted: [entry('wanted').key] } }).get(text), stays('ConfigMap shop/wanted'))
  t.match(of([home, entry('a', { state: 'detached' })]).get(text), stays('ConfigMap shop/a'))
  const newOwner = ({ name }: { name: string }) => (name === 'a' ? '42-8' : undefined)
  t.match(of([home, entry('a')], { input: { newOwner } }).get(text), stays('ConfigMap shop/a'))
  const handedOver = new Map([home, entry('a')].map(({ key }) => [keyText(key), liveOf(key.name)]))
  handedOver.set('/ConfigMap/shop/a', liveOf('a', { owner: '42-8' }))
  t.match(of([home, entry('a')], { input: { live: handedOver } }).get(text), stays('ConfigMap shop/a'))
  handedOver.delete('/ConfigMap/shop/a')
  t.match(of([home, entry('a')], { input: { live: handedOver } }).get(text), { kind: 'confirm' }, 'it is gone')
  const crd = entry('widgets.example.com', {}, 'CustomResourceDefinition', 'apiextensions.k8s.io')
  const [widget, gadget] = [entry('w', {}, 'Widget', 'example.com').key, entry('g', {}, 'Gadget', 'example.com').key]
  const plural = ({ kind }: { kind: string }) => `${kind.toLowerCase()}s`
  const crdText = keyText(crd.key)
  t.match(of([crd], { input: { wanted: [widget], plural } }).get(crdText), stays('Widget.example.com shop/w'))
  t.match(of([crd], { input: { wanted: [gadget], plural } }).get(crdText), { kind: 'confirm' })
  t.match(of([crd], { input: { wanted: [gadget] } }).get(crdText), stays('Gadget.example.com shop/g'))
})

t.test('what others may want stays, and all that would have gone with it', async (t) => {
  const crd = entry('widgets.example.com', {}, 'CustomResourceDefinition', 'apiextensions.k8s.io')
  const entries = [crd, entry('w', {}, 'Widget', 'example.com'), entry('other')]
  const unread = ({ name }: { name: string }) => (name === crd.key.name ? 'who knows' : undefined)
  const { decisions, isWaitingForOthers, digest } = planOf(entries, { input: { unread } })
  t.match([isWaitingForOthers, digest], [true, ''])
  t.match(decisions.get(keyText(crd.key)), { kind: 'blocked', blocked: { code: 'sourceUnread', text: 'who knows' } })
  t.match(decisions.get('example.com/Widget/shop/w'), {
    kind: 'blocked',
    blocked: { code: 'parentUndecided', text: /goes with CustomResource/ },
  })
  t.match(decisions.get('/ConfigMap/shop/other'), { kind: 'delete' })
  const hidden = new Map([...entries].map(({ key }) => [keyText(key), key === crd.key ? null : liveOf(key.name)]))
  const { decisions: later } = planOf(entries, { input: { live: hidden } })
  t.match(later.get('example.com/Widget/shop/w'), { kind: 'blocked' }, 'nor while it cannot be read')
  t.equal(planOf(entries, { input: { unread, live: new Map() } }).isWaitingForOthers, false, 'nothing of it is there')
})

t.test('what waits for others, or for a rollout, counts: two parts of a plan are no less than one', async (t) => {
  const entries = ['a', 'b', 'c', 'd'].map((name) => entry(name))
  const unread = ({ name }: { name: string }) => (name < 'c' ? 'who knows' : undefined)
  for (const input of [{ unread }, { inUse: unread }]) {
    const { decisions } = planOf(entries, { input: { inventorySize: 7, ...input } })
    t.match(decisions.get('/ConfigMap/shop/d'), { kind: 'confirm', reason: { text: /prune_limit: 4 of 7/ } })
  }
})

t.test('what goes with a namespace that waits for others counts too', async (t) => {
  const home = entry('shop', {}, 'Namespace')
  const entries = [
    home,
    ...['a', 'b', 'c'].map((name) => entry(name)),
    entry('d', { key: { ...entry('d').key, namespace: 'web' } }),
  ]
  const unread = ({ kind }: { kind: string }) => (kind === 'Namespace' ? 'who knows' : undefined)
  const { decisions } = planOf(entries, { input: { inventorySize: 9, unread } })
  t.match(decisions.get('/ConfigMap/shop/a'), { blocked: { code: 'parentUndecided' } })
  t.match(decisions.get('/ConfigMap/web/d'), { kind: 'confirm', reason: { text: /prune_limit: 5 of 9/ } })
})

t.test('an annotation that nobody knows asks for approval, and says what is known', async (t) => {
  for (const prune of ['Never', 'nevr', 'false', 'Confirm']) {
    const text =
      'its annotation agent.gitlab.com/prune has a value that is not known: allowed are confirm, never and allow'
    t.match(decided({ live: { prune } }), { kind: 'confirm', reason: { code: 'annotated', text } })
  }
  for (const prune of ['', 'allow']) t.match(decided({ live: { prune } }), { kind: 'delete' })
})

t.test('a plan is named after its source, commit, keys and uids; none waits: none', async (t) => {
  const entries = [entry('a', {}, 'Namespace'), entry('b', {}, 'Namespace')]
  const { digest } = planOf(entries)
  t.match(digest, /^[0-9a-f]{64}$/)
  t.equal(planOf(entries.toReversed()).digest, digest)
  t.not(planOf(entries, { input: { commit: 'c2' } }).digest, digest)
  t.not(planOf(entries.slice(1)).digest, digest)
  t.not(
    planOf(
      entries.map((one) => ({ ...one, uid: '' })),
      { live: { uid: 'new' } },
    ).digest,
    digest,
  )
  t.not(planOf(entries, { options: { id: '42-8' }, live: { owner: '42-8' } }).digest, digest)
  t.equal(planOf([entry('c')]).digest, '')
})
