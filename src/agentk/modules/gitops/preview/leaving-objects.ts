import { keyText, type ObjectKey } from '../../../../kubernetes/key.ts'
import type { KubernetesObject } from '../../../../kubernetes/object.ts'
import { objectPath } from '../../../../kubernetes/path.ts'
import { mayAccess } from '../../../cluster/access-review.ts'
import { metadataOnly } from '../../../cluster/object-list.ts'
import { maxEventBytes as maxBytes } from '../../../cluster/watch-request.ts'
import { unknownLive } from '../apply/dry-apply.ts'
import { ignoredFields, readRules } from '../apply/ignored-fields.ts'
import type { SourceInventory } from '../inventory/source-inventory.ts'
import type { ClusterKinds } from '../live/cluster-kinds.ts'
import { type LiveObject, liveObjectOf } from '../live/live-object.ts'
import { readLiveObjects } from '../live/read-live.ts'
import { lossOf, withLoss } from '../manifests/losses.ts'
import { isChild, isNamespace, isParent } from '../manifests/parents.ts'
import { type Dependents, DependentsOfPlan, type NotListed } from '../prune/dependents.ts'
import { failedCommit } from '../prune/failed-commit.ts'
import {
  configurationOf,
  type PruneDecision,
  type PruneInput,
  type PrunePlan,
  parentsOf,
  planPrune,
  uidsThatGo,
} from '../prune/prune-plan.ts'
import { rolloutUses } from '../prune/rollouts.ts'
import type { Build, InventoryEntry, RoundEnd } from '../round.ts'
import { keyOf } from '../state/state-key.ts'
import type { ShownObject } from './changed-objects.ts'
import { moreText, textsOfOthers } from './leaving-texts.ts'
import type { PreviewedSource } from './previewed-source.ts'

/** Up to so many objects that leave are read one by one. */
const maxGets = 20
/** Limit of kinds and namespaces for which the account's right to delete is asked about. */
const maxSubjects = 100
/** Limit of namespaces and definitions whose contents are listed for one preview. */
const maxParents = 5

/** Limit of sources that a text names. */
const maxSiblings = 3

export interface LeavingInput {
  readonly build: Build
  readonly inventory: Pick<SourceInventory, 'known' | 'chosenAnew'>
  readonly ends: readonly RoundEnd[]
  /** objects that the caller may get, by `keyText`: manifests, and entries of the inventory */
  readonly isVisible: (text: string) => boolean
  /** Returns the objects that the caller may get, by `keyText`. */
  readonly visible: (keys: readonly ObjectKey[]) => Promise<ReadonlySet<string>>
}

/**
 * Shows what the files want no longer, as a round would treat it. Objects that the caller may not get are in no text,
 * and whether they exist makes no difference.
 */
export class LeavingObjects {
  readonly #source: PreviewedSource
  readonly #input: LeavingInput
  readonly #leaving: readonly InventoryEntry[]
  /** the caller may get all objects of the source, and all manifests */
  readonly #isAllSeen: boolean
  readonly #signal: AbortSignal

  constructor(source: PreviewedSource, input: LeavingInput, signal: AbortSignal) {
    const { build, inventory, isVisible } = input
    const wanted = new Set(build.manifests.map(({ key }) => keyText(key)))
    this.#isAllSeen = [...inventory.known.keys(), ...wanted].every(isVisible)
    this.#source = source
    this.#input = input
    this.#leaving = [...inventory.known].flatMap(([text, entry]) => (wanted.has(text) ? [] : [entry]))
    this.#signal = signal
  }

  /** @throws the connection's error, or the signal's reason */
  async results(): Promise<ShownObject[]> {
    if (this.#leaving.length === 0) return []
    const { options } = this.#source
    const input = await this.#planInput()
    const first = planPrune(input, options)
    const inUse = await this.#usedConfiguration(first)
    const left: PruneInput = { ...input, inUse: (key) => inUse.get(keyText(key)) }
    const plan = inUse.size > 0 ? planPrune(left, options) : first
    const dependents = await this.#dependents(plan)
    const { decisions } = dependents.size > 0 ? planPrune({ ...left, dependents }, options) : plan
    const isSeen = ({ key }: InventoryEntry) => this.#input.isVisible(keyText(key))
    const shown = this.#leaving.filter(isSeen)
    const forbidden = await this.#forbidden(shown.filter(({ key }) => 'live' in (decisions.get(keyText(key)) ?? {})))
    return shown.flatMap((entry) => {
      const text = keyText(entry.key)
      const decision = decisions.get(text)
      if (forbidden.has(text)) return this.#stays(entry, "the source's account may not delete it")
      return decision ? this.#shown(entry, decision, dependents.get(text)) : []
    })
  }

  /** Returns the objects, by `keyText`, that the source's account may not delete. */
  async #forbidden(going: readonly InventoryEntry[]): Promise<ReadonlySet<string>> {
    const bySubject = Map.groupBy(going, ({ key: { group, kind, namespace } }) => `${group}/${kind}/${namespace}`)
    const asked = [...bySubject.values()].slice(0, maxSubjects)
    const answers = await Promise.all(
      asked.map(async (some) => {
        const { key } = some[0] as InventoryEntry
        const { group, namespace } = key
        const resource = this.#input.build.kinds.find(key)?.plural
        if (resource === undefined) return true
        const attributes = { verb: 'delete', group, resource, namespace } as const
        return await mayAccess(this.#source.lane, attributes, { headers: [] }, this.#signal)
      }),
    )
    return new Set(asked.flatMap((some, i) => (answers[i] ? [] : some.map(({ key }) => keyText(key)))))
  }

  async #planInput(): Promise<PruneInput> {
    const { build, inventory, ends } = this.#input
    const { claims, claimedCommit } = this.#source
    const live = await this.#live()
    const own = build.manifests.map(({ key }) => key)
    return {
      commit: claimedCommit,
      isRemoval: false,
      mayHaveCallsInFlight: false,
      failed: failedCommit(ends),
      entries: this.#leaving,
      inventorySize: inventory.known.size,
      wantedSize: build.manifests.length,
      wanted: [...own, ...(await this.#wantedByOthers())],
      chosenAnew: inventory.chosenAnew,
      isChartPartial: build.isPartial,
      isHook: (key) => build.hooks.has(keyText(key)),
      plural: (key) => build.kinds.find(key)?.plural,
      live,
      appliedUids: new Set(ends.flatMap(({ end }) => ('live' in end && end.live?.uid ? [end.live.uid] : []))),
      newOwner: claims.newOwner,
      unread: (key) => claims.unknownClaim(key, claimedCommit),
    }
  }

  /** Reads the objects that the caller may get. The others count as they were applied. */
  async #live(): Promise<ReadonlyMap<string, LiveObject | null>> {
    const { isVisible, build } = this.#input
    const { options, lane } = this.#source
    const visible = this.#leaving.filter(({ key }) => isVisible(keyText(key)))
    const rules = readRules(options.drift.ignore, options.manager)
    const ignoredOf = (key: ObjectKey) => ignoredFields(rules, { key })
    const isKnown = visible.every(({ key }) => build.kinds.find(key))
    const kinds = isKnown ? build.kinds : await this.#source.kinds.read(this.#signal)
    const live = new Map<string, LiveObject | null>()
    for (const entry of this.#leaving)
      if (!isVisible(keyText(entry.key)))
        live.set(keyText(entry.key), { ...unknownLive, uid: entry.uid, owner: options.id })
    const served = visible.length <= maxGets && visible.every(({ key }) => kinds.find(key))
    if (!served) {
      const found = await readLiveObjects(visible, { lane, kinds, ignoredOf }, options, this.#signal)
      for (const { key } of visible) {
        const one = found.objects.get(keyText(key))
        if (one !== undefined) live.set(keyText(key), one)
      }
      return live
    }
    await Promise.all(
      visible.map(async ({ key }) => {
        const one = await this.#get(key, kinds)
        if (one !== undefined) live.set(keyText(key), one && liveObjectOf(one, options.manager, ignoredOf(key)))
      }),
    )
    return live
  }

  /** @returns undefined: it does not exist; null: it cannot be read */
  async #get(key: ObjectKey, kinds: ClusterKinds): Promise<KubernetesObject | undefined | null> {
    const kind = kinds.find(key)
    if (!kind) return undefined
    const how = { accept: metadataOnly.object, maxBytes }
    const { status, body } = await this.#source.lane.json('GET', objectPath(kind, key), undefined, this.#signal, how)
    if (status === 404) return undefined
    return status === 200 ? (body as KubernetesObject) : null
  }

  /** Returns what other sources want of that which goes with a namespace or a definition, as far as the caller may get it. */
  async #wantedByOthers(): Promise<readonly ObjectKey[]> {
    const { build, visible } = this.#input
    const parents = this.#leaving.filter(({ key }) => isParent(key))
    if (parents.length === 0) return []
    const others = [...this.#source.claims.wanted()].filter((one) =>
      parents.some(({ key }) => isChild(one, key, build.kinds.find(one)?.plural)),
    )
    const seen = await visible(others)
    return others.filter((key) => seen.has(keyText(key)))
  }

  /** Returns, by `keyText`, why configuration stays that Pods of a rollout use. */
  async #usedConfiguration(plan: PrunePlan): Promise<ReadonlyMap<string, string>> {
    const { build, isVisible } = this.#input
    const { ownLane, lane, kinds } = this.#source
    const isSeen = (key: ObjectKey) => isVisible(keyText(key))
    const going = configurationOf(plan, this.#leaving).filter(isSeen)
    if (going.length === 0) return new Map()
    const wanted = build.manifests.flatMap(({ key }) => (isSeen(key) ? [key] : []))
    const components = { lanes: [ownLane, lane], kinds: () => kinds.current(this.#signal) }
    return (await rolloutUses(components, { going, wanted }, this.#signal)).uses
  }

  /** Lists what goes with namespaces and definitions, as far as the caller may get it. */
  async #dependents(plan: PrunePlan): Promise<ReadonlyMap<string, Dependents | NotListed>> {
    const { visible, isVisible } = this.#input
    const parents = parentsOf(plan, this.#leaving).filter((key) => isVisible(keyText(key)))
    const all = new Map<string, Dependents | NotListed>()
    for (const parent of parents.slice(0, maxParents)) {
      const kinds = await this.#source.kinds.current(this.#signal)
      const inside = kinds.listable.filter(({ plural, group, isNamespaced }) =>
        isNamespace(parent) ? isNamespaced : parent.name === `${plural}.${group}`,
      )
      const namespace = isNamespace(parent) ? parent.name : ''
      const keys = inside.map(({ group, kind }) => ({ group, kind, namespace, name: '' }))
      const seen = await visible(keys)
      const listable = inside.filter((_, i) => seen.has(keyText(keys[i] as ObjectKey)))
      // kinds that are not served now are not listed either: the answer says that more may go
      const served = { listable, isWhole: true } as unknown as ClusterKinds
      const listing = new DependentsOfPlan({ lane: this.#source.ownLane, kinds: async () => served }, uidsThatGo(plan))
      const found = (await listing.list([parent], this.#signal)).get(keyText(parent))
      if (found && 'seen' in found) all.set(keyText(parent), found)
    }
    return all
  }

  #shown(
    { key, version }: InventoryEntry,
    decision: PruneDecision,
    dependents: Dependents | NotListed | undefined,
  ): ShownObject[] {
    if (decision.kind === 'forget') return []
    if (decision.kind === 'blocked') return this.#stays({ key, version }, this.#textOf(decision.blocked))
    const of = { key: keyOf({ key, version }), file: '', line: 0 }
    const listed = dependents && 'seen' in dependents ? dependents : { names: [], more: 0 }
    const goesWith = {
      alsoDeleted: [...listed.names],
      moreAlsoDeleted: listed.more,
      alsoDeletedText: moreText(key),
    }
    const reason = decision.kind === 'confirm' ? this.#textOf(decision.reason) : ''
    const loss = lossOf(key)
    const parts = [reason === '' ? loss : withLoss(reason, loss), this.#mayMove(key)]
    const text = parts.filter((part) => part !== '').join('; ')
    return [{ ...of, ...goesWith, action: decision.kind === 'confirm' ? 'waits' : 'deleted', text }]
  }

  /** Returns the sources to which the same change may move an object; empty: none. */
  #mayMove(key: ObjectKey): string {
    const ids = this.#source.siblings(key)
    const named = ids.slice(0, maxSiblings).join(', ')
    const more = ids.length > maxSiblings ? ` and ${ids.length - maxSiblings} more` : ''
    return ids.length === 0 ? '' : `unless the same change moves it to source ${named}${more}`
  }

  #stays({ key, version }: Pick<InventoryEntry, 'key' | 'version'>, text: string): ShownObject[] {
    return [{ key: keyOf({ key, version }), file: '', line: 0, action: 'stays', text }]
  }

  /** Returns the text of a reason. Texts that name or count other objects are left out if some of these are hidden. */
  #textOf({ code, text }: { readonly code: string; readonly text: string }): string {
    return this.#isAllSeen ? text : (textsOfOthers[code] ?? text)
  }
}
