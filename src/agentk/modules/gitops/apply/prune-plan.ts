import type { InventoryEntry } from '../inventory/entry.ts'
import type { LiveObject } from '../live/live-object.ts'
import { keyName, keyText, type ObjectKey } from '../manifests/object-key.ts'
import { outsideReach } from '../manifests/scope.ts'
import { pruneLimitFrom, type SourceOptions } from '../source-options.ts'
import { isChild, isParent } from './parents.ts'
import { planDigest } from './plan-digest.ts'

export type PruneOptions = Pick<
  SourceOptions,
  | 'id'
  | 'manager'
  | 'adopt'
  | 'onRemoval'
  | 'dryRunStrategy'
  | 'prune'
  | 'pruneConfirm'
  | 'pruneLimit'
  | 'namespaces'
  | 'resourceInclusions'
  | 'resourceExclusions'
>

/**
 * What becomes of an object that the commit does not want any more.
 *
 * `forget`: it is gone, or another's; `keep`: it stays in the inventory, in that state; `delete`: it goes now; `confirm`:
 * once somebody approves.
 */
export type PruneDecision =
  | { readonly is: 'forget' }
  | { readonly is: 'keep'; readonly state: 'planned' | 'failed' | 'waits' | 'detached'; readonly reason: string }
  | { readonly is: 'delete'; readonly live: LiveObject }
  | { readonly is: 'confirm'; readonly live: LiveObject; readonly reason: string }

export interface PruneInput {
  readonly commit: string
  /** in the inventory, and not wanted */
  readonly entries: readonly InventoryEntry[]
  /** all in the inventory */
  readonly inventorySize: number
  /** all that the commit wants */
  readonly wantedSize: number
  /** the configuration chooses other manifests of a commit than before */
  readonly isChosenAnew: boolean
  /** the source has left the configuration */
  readonly isRemoval: boolean
  /** what stays whatever is decided: wanted by any source, or in the inventory and not to be decided upon now */
  readonly staying: readonly ObjectKey[]
  /** as the API server calls the objects of its kind; undefined: not known */
  readonly plural: (key: ObjectKey) => string | undefined
  /** by `keyText`; not there: it is gone; null: it cannot be read now */
  readonly live: ReadonlyMap<string, LiveObject | null>
  /** of what has just been applied, under whatever key */
  readonly appliedUids: ReadonlySet<string>
  /** by `keyText`: what must go so that an apply can succeed */
  readonly wantedFree?: ReadonlySet<string>
  /** what the pod that led before has sent may not have landed yet */
  readonly isSettling?: boolean
  /** another source of this agent that wants it */
  readonly heir: (key: ObjectKey) => string | undefined
  /** why it is not known yet whether there is one */
  readonly held: (key: ObjectKey) => string | undefined
}

export interface PrunePlan {
  /** by `keyText` */
  readonly decisions: ReadonlyMap<string, PruneDecision>
  /** what an approval names; empty: nothing waits for one */
  readonly digest: string
  /** something stays until others have said what they want */
  readonly isHeld: boolean
}

/** Of all that the stock agent applies. */
const stockManager = 'agentk'
const removed = 'its source has left the configuration'

/** Decides on each object that has left a source; deletes nothing. */
export function prunePlan(input: PruneInput, options: PruneOptions): PrunePlan {
  const decisions = new Map(input.entries.map((entry) => [keyText(entry.key), decide(entry, input, options)]))
  const isHeld = holdChildren(input, decisions)
  const all = unusual(input, decisions, options)
  for (const [text, decision] of decisions) {
    if (all && decision.is === 'delete') decisions.set(text, { ...decision, is: 'confirm', reason: all })
  }
  holdParents(input, decisions)
  waitWithParents(input, decisions)
  return { decisions, digest: digestOf(input, decisions, options), isHeld }
}

function decide(entry: InventoryEntry, input: PruneInput, options: PruneOptions): PruneDecision {
  const text = keyText(entry.key)
  const live = input.live.get(text)
  if (live === undefined) {
    const mayCome = input.isSettling && entry.uid === ''
    return mayCome ? keep('planned', 'it has not been made, and may be on its way') : { is: 'forget' }
  }
  if (live === null) return keep('failed', 'it cannot be read now')
  if (!['', options.id, ...options.adopt].includes(live.owner)) return { is: 'forget' }
  const outside = outsideReach(entry.key, options)
  if (entry.state === 'detached') return keep('detached', entry.reason)
  if (outside) return keep('detached', outside)
  const isKept = options.onRemoval === 'keep' || options.dryRunStrategy !== 'none'
  if (input.isRemoval && isKept) return keep('detached', removed)
  const heir = input.heir(entry.key)
  if (heir !== undefined) return keep('waits', `source ${heir} wants it`)
  if (live.prune === 'never') return keep('waits', 'its annotations say never to delete it')
  const held = input.held(entry.key)
  return guarded(entry, live, input, options) ?? (held ? keep('waits', held) : asked(entry, live, input, options))
}

/** What is perhaps not the object that this source has made. */
function guarded(
  entry: InventoryEntry,
  live: LiveObject,
  input: PruneInput,
  options: PruneOptions,
): PruneDecision | undefined {
  if (live.owner === '' && entry.uid === '') return { is: 'forget' } // it was there before, and no apply was taken
  if (entry.uid === '' && !isApplied(live, options)) return keep('waits', 'nothing shows that it was applied')
  if (live.owner === '') return keep('failed', 'its owner annotation is gone: somebody may have taken it')
  if (entry.uid !== '' && entry.uid !== live.uid) return keep('failed', 'another object has its name by now')
  if (live.isControlled) return keep('failed', 'a controller keeps it')
  if (input.appliedUids.has(live.uid)) return { is: 'forget' } // the same object, by the name of another group
  if (live.isBeingDeleted) return keep('failed', 'it is being deleted')
  return undefined
}

/** By this source, or by the stock agent: an entry of which no more is known is no proof, others may write such marks. */
function isApplied({ managers, owner }: LiveObject, { manager }: PruneOptions): boolean {
  return managers.some((name) => name === manager || name === stockManager || name === `agentk-${owner}`)
}

function asked(entry: InventoryEntry, live: LiveObject, input: PruneInput, options: PruneOptions): PruneDecision {
  if (!options.prune) return keep('waits', 'prune: false')
  const { kind } = entry.key
  if (live.owner !== options.id) return { is: 'confirm', live, reason: `inventory ${live.owner} has made it` }
  if (input.wantedFree?.has(keyText(entry.key)))
    return { is: 'confirm', live, reason: 'what comes needs what it holds' }
  if (live.prune === 'confirm') return { is: 'confirm', live, reason: 'its annotation asks for approval' }
  const isOfKind = options.pruneConfirm.includes(kind) && live.prune !== 'allow'
  return isOfKind ? { is: 'confirm', live, reason: `prune_confirm: ${kind}` } : { is: 'delete', live }
}

function keep(state: 'planned' | 'failed' | 'waits' | 'detached', reason: string): PruneDecision {
  return { is: 'keep', state, reason }
}

/** Why all that would go waits. */
function unusual(
  { entries, inventorySize, wantedSize, isChosenAnew, isRemoval, held }: PruneInput,
  decisions: ReadonlyMap<string, PruneDecision>,
  { pruneLimit }: PruneOptions,
): string | undefined {
  // what is held now goes later, perhaps: in two parts it is no less
  const leaving = entries.filter(({ key }) => goes(decisions.get(keyText(key))) || held(key) !== undefined)
  const count = leaving.length
  if (isRemoval) return removed
  if (wantedSize === 0) return 'the commit wants nothing at all'
  if (isChosenAnew) return 'the configuration chooses other manifests than before'
  const limit = 'objects' in pruneLimit ? pruneLimit.objects : (inventorySize * pruneLimit.percent) / 100
  if (inventorySize <= pruneLimitFrom || count <= limit) return undefined
  return `prune_limit: ${count} of ${inventorySize} objects`
}

/**
 * What goes with a namespace, or with the definition of its kind, is decided upon when that is. @returns whether anything
 * is held
 */
function holdChildren({ entries, live, held, plural }: PruneInput, decisions: Map<string, PruneDecision>): boolean {
  const isHeld = ({ key }: InventoryEntry) => decisions.get(keyText(key))?.is === 'keep' && held(key) !== undefined
  const isUndecided = (entry: InventoryEntry) => live.get(keyText(entry.key)) === null || isHeld(entry)
  for (const { key: parent } of entries.filter((entry) => isParent(entry.key) && isUndecided(entry))) {
    for (const { key } of entries) {
      if (!goes(decisions.get(keyText(key))) || !isChild(key, parent, plural(key))) continue
      decisions.set(keyText(key), keep('waits', `it goes with ${keyName(parent)}, which is not decided upon now`))
    }
  }
  return entries.some(isHeld)
}

/** A namespace or a definition stays as long as anything in it, or of its kind, is to stay: that would go with it. */
function holdParents(input: PruneInput, decisions: Map<string, PruneDecision>): void {
  const { entries, staying, live, plural } = input
  const kept = entries.filter(({ key }) => {
    const text = keyText(key)
    const is = decisions.get(text)?.is
    return is === 'keep' || (is === 'forget' && live.has(text))
  })
  const stay = [...staying, ...kept.map(({ key }) => key)]
  for (const { key } of entries.filter((entry) => isParent(entry.key))) {
    const text = keyText(key)
    const child = goes(decisions.get(text)) && stay.find((one) => isChild(one, key, plural(one)))
    if (child) decisions.set(text, keep('waits', `${keyName(child)} would go with it`))
  }
}

/** What goes with a namespace, or with the definition of its kind, waits for the same approval; they wait for its own. */
function waitWithParents(input: PruneInput, decisions: Map<string, PruneDecision>): void {
  const { entries, plural } = input
  const parents = entries.filter(({ key }) => isParent(key))
  const families = parents.map(({ key: parent }) => {
    const children = entries.filter(({ key }) => isChild(key, parent, plural(key)))
    return { parent, children: children.map(({ key }) => key) }
  })
  const waits = (key: ObjectKey) => decisions.get(keyText(key))?.is === 'confirm'
  const wait = (key: ObjectKey, reason: string) => {
    const decision = decisions.get(keyText(key))
    if (decision?.is !== 'delete') return false
    decisions.set(keyText(key), { ...decision, is: 'confirm', reason })
    return true
  }
  // an object may be in one and of the other: until none is left that another makes wait
  for (let isChanged = true; isChanged; ) {
    isChanged = false
    for (const { parent, children } of families) {
      const child = children.find(waits)
      if (child && wait(parent, `${keyName(child)} goes with it`)) isChanged = true
      if (!waits(parent)) continue
      for (const key of children) if (wait(key, `it goes with ${keyName(parent)}`)) isChanged = true
    }
  }
}

function goes(decision: PruneDecision | undefined): boolean {
  return decision?.is === 'delete' || decision?.is === 'confirm'
}

function digestOf(
  { commit, entries }: PruneInput,
  decisions: ReadonlyMap<string, PruneDecision>,
  { id }: PruneOptions,
): string {
  const deletes = entries.flatMap(({ key }) => {
    const decision = decisions.get(keyText(key))
    return decision?.is === 'confirm' ? [{ key, uid: decision.live.uid }] : []
  })
  return planDigest({ id, commit }, deletes)
}
