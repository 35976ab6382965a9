import t from 'tap'
import {
  type PruneInput,
  type PruneOptions,
  prunePlan,
} from '../../../../../../src/agentk/modules/gitops/apply/prune-plan.ts'
import type { InventoryEntry } from '../../../../../../src/agentk/modules/gitops/inventory/entry.ts'
import type { LiveObject } from '../../../../../../src/agentk/modules/gitops/live/live-object.ts'
import { keyText } from '../../../../../../src/agentk/modules/gitops/manifests/object-key.ts'

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
  managers: ['agentk-42-7'],
  isControlled: false,
  isBeingDeleted: false,
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
    isChosenAnew: false,
    isRemoval: false,
    staying: [],
    plural: () => undefined,
    live: all,
    appliedUids: new Set(),
    heir: () => undefined,
    held: () => undefined,
    ...input,
  }
  return prunePlan(given, { ...options, ...rest.options })
}

const decided = (given: Case, kind?: string) => {
  const one = entry('a', given.entry, kind)
  return planOf([one], given).decisions.get(keyText(one.key))
}

t.test('what has left the commit goes, if all that speaks against it is silent', async (t) => {
  t.match(decided({}), { is: 'delete' })
  t.match(decided({ entry: { uid: '' } }), { is: 'delete' })
  t.match(decided({ entry: { uid: '' }, live: { managers: ['agentk'] } }), { is: 'delete' }, 'the stock agent has')
})

const kept: [what: string, given: Case, reason: RegExp][] = [
  ['its owner annotation is gone', { live: { owner: '' } }, /owner annotation/],
  ['nobody of ours has applied it', { entry: { uid: '' }, live: { managers: ['kubectl'] } }, /nothing shows/],
  ['it was made anew by somebody', { live: { uid: 'other' } }, /another object/],
  ['a controller keeps it', { live: { isControlled: true } }, /controller/],
  ['it cannot be read', { live: null }, /cannot be read/],
  ['it is being deleted', { live: { isBeingDeleted: true } }, /being deleted/],
  ['prune is off', { options: { prune: false } }, /prune: false/],
  ['its annotation says never', { live: { prune: 'never' } }, /never/],
  ['its source is gone: keep', { input: { isRemoval: true }, options: { onRemoval: 'keep' } }, /has left the config/],
  ['its source is gone: dry run', { input: { isRemoval: true }, options: { dryRunStrategy: 'server' } }, /has left/],
  ['it was detached', { entry: { state: 'detached', reason: 'why' } }, /why/],
  ['its namespace left the configuration', { options: { namespaces: ['other'] } }, /outside the namespaces/],
  ['another source wants it', { input: { heir: () => '42-8' } }, /42-8/],
]
for (const [what, given, reason] of kept) {
  t.test(`it stays in the inventory: ${what}`, async (t) => t.match(decided(given), { is: 'keep', reason }))
}

t.test('it leaves the inventory: it is gone, of another, or the same object by another name', async (t) => {
  t.match(decided({ input: { live: new Map() } }), { is: 'forget' })
  t.match(decided({ live: { owner: '41-7' } }), { is: 'forget' })
  t.match(decided({ live: { owner: '41-7' }, entry: { state: 'detached' } }), { is: 'forget' })
  t.match(decided({ input: { appliedUids: new Set(['uid-a']) } }), { is: 'forget' })
  t.match(decided({ live: { owner: '' }, entry: { uid: '' } }), { is: 'forget' }, 'it was never ours')
})

const confirmed: [what: string, given: Case, reason: RegExp][] = [
  ['its annotation', { live: { prune: 'confirm' } }, /annotation/],
  ['an adopted inventory has made it', { live: { owner: '40-7' } }, /inventory 40-7 has made it/],
  ['it is in the way', { input: { wantedFree: new Set(['/ConfigMap/shop/a']) } }, /needs/],
  ['the commit is empty', { input: { wantedSize: 0 } }, /nothing at all/],
  ['its source is gone', { input: { isRemoval: true, wantedSize: 0 } }, /its source has left the configuration/],
  ['the configuration has changed', { input: { isChosenAnew: true } }, /chooses other manifests/],
  ['the limit is a number', { options: { pruneLimit: { objects: 0 } } }, /prune_limit: 1 of 100/],
]
for (const [what, given, reason] of confirmed) {
  t.test(`it waits for approval: ${what}`, async (t) => t.match(decided(given), { is: 'confirm', reason }))
}

t.test('kinds of prune_confirm wait, unless the object allows it', async (t) => {
  t.match(decided({}, 'Namespace'), { is: 'confirm', reason: /prune_confirm: Namespace/ })
  t.match(decided({ live: { prune: 'allow' } }, 'Namespace'), { is: 'delete' })
})

t.test('more than a share of an inventory waits, small ones do not', async (t) => {
  const entries = ['a', 'b', 'c', 'd'].map((name) => entry(name))
  const is = (inventorySize: number) =>
    new Set([...planOf(entries, { input: { inventorySize } }).decisions.values()].map((decision) => decision.is))
  t.strictSame(is(8), new Set(['delete']))
  t.strictSame(is(7), new Set(['confirm']))
  t.strictSame(is(5), new Set(['delete']))
})

t.test('what is in a namespace, or of a kind, waits with it', async (t) => {
  const crd = entry('widgets.example.com', {}, 'CustomResourceDefinition', 'apiextensions.k8s.io')
  const entries = [crd, entry('w', {}, 'Widget', 'example.com'), entry('other')]
  const { decisions } = planOf(entries)
  t.match(decisions.get('example.com/Widget/shop/w'), { is: 'confirm', reason: /goes with CustomResourceDefinition/ })
  t.match(decisions.get('/ConfigMap/shop/other'), { is: 'delete' })
  t.match(planOf([entry('shop', {}, 'Namespace'), entry('a')]).decisions.get('/ConfigMap/shop/a'), {
    is: 'confirm',
    reason: 'it goes with Namespace shop',
  })
})

t.test('a namespace or a definition waits for approval with what is in it, or of its kind', async (t) => {
  const [home, claim, other] = [entry('shop', {}, 'Namespace'), entry('data', {}, 'PersistentVolumeClaim'), entry('a')]
  const { decisions } = planOf([home, claim, other], { options: { pruneConfirm: ['PersistentVolumeClaim'] } })
  t.match(decisions.get('/Namespace//shop'), { is: 'confirm', reason: 'PersistentVolumeClaim shop/data goes with it' })
  t.match(decisions.get('/ConfigMap/shop/a'), { is: 'confirm', reason: 'it goes with Namespace shop' })
  // its definition waits, so it does, so its namespace does
  const crd = entry('widgets.example.com', {}, 'CustomResourceDefinition', 'apiextensions.k8s.io')
  const all = planOf([home, crd, entry('w', {}, 'Widget', 'example.com'), other], {
    options: { pruneConfirm: ['CustomResourceDefinition'] },
  })
  t.strictSame(new Set([...all.decisions.values()].map(({ is }) => is)), new Set(['confirm']))
})

t.test('a namespace or a definition stays while anything that stays would go with it', async (t) => {
  const home = entry('shop', {}, 'Namespace')
  const of = (entries: readonly InventoryEntry[], given: Case = {}) => planOf(entries, given).decisions
  const held = (child: string) => ({ is: 'keep', state: 'waits', reason: `${child} would go with it` })
  const text = '/Namespace//shop'
  t.match(of([home], { input: { staying: [entry('wanted').key] } }).get(text), held('ConfigMap shop/wanted'))
  t.match(of([home, entry('a', { state: 'detached' })]).get(text), held('ConfigMap shop/a'))
  const heir = ({ name }: { name: string }) => (name === 'a' ? '42-8' : undefined)
  t.match(of([home, entry('a')], { input: { heir } }).get(text), held('ConfigMap shop/a'))
  const handedOver = new Map([home, entry('a')].map(({ key }) => [keyText(key), liveOf(key.name)]))
  handedOver.set('/ConfigMap/shop/a', liveOf('a', { owner: '42-8' }))
  t.match(of([home, entry('a')], { input: { live: handedOver } }).get(text), held('ConfigMap shop/a'))
  handedOver.delete('/ConfigMap/shop/a')
  t.match(of([home, entry('a')], { input: { live: handedOver } }).get(text), { is: 'confirm' }, 'it is gone')
  const crd = entry('widgets.example.com', {}, 'CustomResourceDefinition', 'apiextensions.k8s.io')
  const [widget, gadget] = [entry('w', {}, 'Widget', 'example.com').key, entry('g', {}, 'Gadget', 'example.com').key]
  const plural = ({ kind }: { kind: string }) => `${kind.toLowerCase()}s`
  const crdText = keyText(crd.key)
  t.match(of([crd], { input: { staying: [widget], plural } }).get(crdText), held('Widget.example.com shop/w'))
  t.match(of([crd], { input: { staying: [gadget], plural } }).get(crdText), { is: 'confirm' })
  t.match(of([crd], { input: { staying: [gadget] } }).get(crdText), held('Gadget.example.com shop/g'))
})

t.test('what others may want stays, and all that would have gone with it', async (t) => {
  const crd = entry('widgets.example.com', {}, 'CustomResourceDefinition', 'apiextensions.k8s.io')
  const entries = [crd, entry('w', {}, 'Widget', 'example.com'), entry('other')]
  const held = ({ name }: { name: string }) => (name === crd.key.name ? 'who knows' : undefined)
  const { decisions, isHeld, digest } = planOf(entries, { input: { held } })
  t.match([isHeld, digest], [true, ''])
  t.match(decisions.get(keyText(crd.key)), { is: 'keep', state: 'waits', reason: 'who knows' })
  t.match(decisions.get('example.com/Widget/shop/w'), {
    is: 'keep',
    state: 'waits',
    reason: /goes with CustomResource/,
  })
  t.match(decisions.get('/ConfigMap/shop/other'), { is: 'delete' })
  const unread = new Map([...entries].map(({ key }) => [keyText(key), key === crd.key ? null : liveOf(key.name)]))
  const { decisions: later } = planOf(entries, { input: { live: unread } })
  t.match(later.get('example.com/Widget/shop/w'), { is: 'keep' }, 'nor while it cannot be read')
  t.equal(planOf(entries, { input: { held, live: new Map() } }).isHeld, false, 'nothing of it is there')
})

t.test('what is held counts: two parts of a plan are no less than one', async (t) => {
  const entries = ['a', 'b', 'c', 'd'].map((name) => entry(name))
  const held = ({ name }: { name: string }) => (name < 'c' ? 'who knows' : undefined)
  const { decisions } = planOf(entries, { input: { inventorySize: 7, held } })
  t.match(decisions.get('/ConfigMap/shop/d'), { is: 'confirm', reason: /prune_limit: 4 of 7/ })
})

t.test('what another source wants, or its annotation keeps, is looked at again', async (t) => {
  for (const given of [{ input: { heir: () => '42-8' } }, { live: { prune: 'never' } }]) {
    t.match(decided(given), { is: 'keep', state: 'waits' })
  }
  t.match(decided({ options: { namespaces: ['other'] } }), { is: 'keep', state: 'detached' })
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
