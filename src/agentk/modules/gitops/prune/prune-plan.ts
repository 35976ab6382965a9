import { keyName, keyText, type ObjectKey } from '../../../../kubernetes/key.ts'
import { planDigest } from '../delete/approved-plan.ts'
import type { LiveObject } from '../live/live-object.ts'
import { pruneAnnotation } from '../manifests/annotations.ts'
import { isChild, isParent } from '../manifests/parents.ts'
import type { InventoryEntry } from '../round.ts'
import { pruneLimitFrom } from '../source-options.ts'
import { type Blocked, blockedBy, type PruneContext, type PruneOptions, stateOf } from './blockers.ts'
import type { Dependents, NotListed } from './dependents.ts'

/** Code of the reason for which a deletion needs approval. */
export type ApprovalCode =
  | 'adopted'
  | 'neededByFailed'
  | 'annotated'
  | 'pruneConfirm'
  | 'sourceRemoved'
  | 'nothingWanted'
  | 'chosenAnew'
  | 'pruneLimit'
  | 'withParent'
  | 'withChild'
  | 'withOthers'

export interface ApprovalReason {
  readonly code: ApprovalCode
  /** for people */
  readonly text: string
}

/**
 * Decision on an object that the commit no longer wants.
 *
 * `forget`: it is deleted, or another's. `blocked`: it stays in the inventory. `delete`: it is deleted now.
 * `confirm`: it is deleted after an approval.
 */
export type PruneDecision =
  | { readonly kind: 'forget' }
  | { readonly kind: 'blocked'; readonly blocked: Blocked }
  | { readonly kind: 'delete'; readonly live: LiveObject }
  | { readonly kind: 'confirm'; readonly live: LiveObject; readonly reason: ApprovalReason }

export interface PruneInput extends Omit<PruneContext, 'options'> {
  readonly commit: string
  /** entries of the inventory that are not wanted */
  readonly entries: readonly InventoryEntry[]
  /** number of all entries in the inventory */
  readonly inventorySize: number
  /** number of all objects that the commit wants */
  readonly wantedSize: number
  /** reason why other manifests are chosen than before; undefined: none */
  readonly chosenAnew: string | undefined
  /** objects that any source wants: they stay whatever is decided */
  readonly wanted: readonly ObjectKey[]
  /** plural that the API server has for its kind; undefined: not known */
  readonly plural: (key: ObjectKey) => string | undefined
  /** by `keyText`; absent: it does not exist; null: it cannot be read now */
  readonly live: ReadonlyMap<string, LiveObject | null>
  /** uids of objects that were just applied, under any key */
  readonly appliedUids: ReadonlySet<string>
  /** by `keyText` of a `parentsOf`: what would be deleted with it; absent: not listed yet */
  readonly dependents?: ReadonlyMap<string, Dependents | NotListed>
}

export interface PrunePlan {
  /** by `keyText` */
  readonly decisions: ReadonlyMap<string, PruneDecision>
  /** digest that an approval names; empty: nothing waits for one */
  readonly digest: string
  /** an object stays until other sources have claimed what they want */
  readonly isWaitingForOthers: boolean
}

/** Decides on each object that has left a source; deletes nothing. */
export function planPrune(input: PruneInput, options: PruneOptions): PrunePlan {
  const context = { ...input, options }
  const decisions = new Map(input.entries.map((entry) => [keyText(entry.key), decide(entry, input, context)]))
  const isWaitingForOthers = [...decisions.values()].some(waitsForOthers)
  const reason = unusual(input, decisions, options) // first: blocked children count too
  blockChildren(input, decisions)
  confirmAll(reason, decisions)
  blockParents(input, decisions)
  blockUnlisted(input, decisions)
  confirmFamilies(input, decisions)
  return { decisions, digest: digestOf(input, decisions, options), isWaitingForOthers }
}

/** Returns the uids of objects that a plan deletes, perhaps after an approval: all others in the inventory stay. */
export function uidsThatGo({ decisions }: PrunePlan): ReadonlySet<string> {
  const going = [...decisions.values()].flatMap((decision) => ('live' in decision ? [decision.live.uid] : []))
  return new Set(going)
}

/** Returns namespaces and definitions that a plan may delete. Their contents must be listed. */
export function parentsOf({ decisions }: PrunePlan, entries: readonly InventoryEntry[]): readonly ObjectKey[] {
  return entries.flatMap(({ key }) => (isParent(key) && goes(decisions.get(keyText(key))) ? [key] : []))
}

/** Returns ConfigMaps and Secrets that a plan deletes, perhaps after an approval. Pods may still use them. */
export function configurationOf({ decisions }: PrunePlan, entries: readonly InventoryEntry[]): readonly ObjectKey[] {
  return entries.flatMap(({ key }) => {
    const isConfiguration = key.group === '' && (key.kind === 'ConfigMap' || key.kind === 'Secret')
    return isConfiguration && goes(decisions.get(keyText(key))) ? [key] : []
  })
}

function decide(entry: InventoryEntry, input: PruneInput, context: PruneContext): PruneDecision {
  const live = input.live.get(keyText(entry.key))
  if (live && isForgotten(entry, live, input, context)) return { kind: 'forget' }
  const block = blockedBy(entry, live, context)
  if (block) return blocked(block)
  if (!live) return { kind: 'forget' }
  const reason = approvalFor(entry, live, context)
  return reason ? { kind: 'confirm', live, reason } : { kind: 'delete', live }
}

/** True if the object is not what this source has made. */
function isForgotten(
  { uid }: InventoryEntry,
  live: LiveObject,
  { appliedUids }: PruneInput,
  { options: { id, adopt } }: PruneContext,
): boolean {
  if (!['', id, ...adopt].includes(live.owner)) return true
  if (live.owner === '' && uid === '') return true // it existed before, and no apply succeeded
  return appliedUids.has(live.uid) // the same object under another API group
}

function approvalFor(
  { key }: InventoryEntry,
  { owner, prune }: LiveObject,
  { failed, options: { id, pruneConfirm } }: PruneContext,
): ApprovalReason | undefined {
  if (owner !== id) return { code: 'adopted', text: `inventory ${owner} has made it` }
  if (failed) return { code: 'neededByFailed', text: failed.neededBy(key) ?? '' }
  if (prune === 'confirm') return { code: 'annotated', text: 'its annotation asks for approval' }
  if (prune !== '' && prune !== 'allow') {
    const text = `its annotation ${pruneAnnotation} has a value that is not known: allowed are confirm, never and allow`
    return { code: 'annotated', text } // the value is anybody's text
  }
  const isOfKind = pruneConfirm.includes(key.kind) && prune !== 'allow'
  return isOfKind ? { code: 'pruneConfirm', text: `prune_confirm: ${key.kind}` } : undefined
}

/** Returns a reason for which all deletions of the plan need approval. */
function unusual(
  { entries, inventorySize, wantedSize, chosenAnew, isRemoval }: PruneInput,
  decisions: ReadonlyMap<string, PruneDecision>,
  { pruneLimit }: PruneOptions,
): ApprovalReason | undefined {
  // objects that are blocked for a while count, so that a large deletion in two parts is not smaller
  const count = entries.filter(({ key }) => {
    const decision = decisions.get(keyText(key))
    return goes(decision) || (decision?.kind === 'blocked' && decision.blocked.until !== undefined)
  }).length
  if (isRemoval) return { code: 'sourceRemoved', text: 'its source has left the configuration' }
  if (wantedSize === 0) return { code: 'nothingWanted', text: 'the commit wants nothing at all' }
  if (chosenAnew !== undefined) return { code: 'chosenAnew', text: chosenAnew }
  const limit = 'objects' in pruneLimit ? pruneLimit.objects : (inventorySize * pruneLimit.percent) / 100
  if (inventorySize <= pruneLimitFrom || count <= limit) return undefined
  return { code: 'pruneLimit', text: `prune_limit: ${count} of ${inventorySize} objects` }
}

function confirmAll(reason: ApprovalReason | undefined, decisions: Map<string, PruneDecision>): void {
  if (!reason) return
  for (const [text, decision] of decisions) {
    if (decision.kind === 'delete') decisions.set(text, { ...decision, kind: 'confirm', reason })
  }
}

/** Blocks objects that would be deleted with a namespace or a definition which is not decided upon now. */
function blockChildren({ entries, live, plural }: PruneInput, decisions: Map<string, PruneDecision>): void {
  const isUndecided = ({ key }: InventoryEntry) =>
    live.get(keyText(key)) === null || waitsForOthers(decisions.get(keyText(key)))
  for (const { key: parent } of entries.filter((entry) => isParent(entry.key) && isUndecided(entry))) {
    const text = `it goes with ${keyName(parent)}, which is not decided upon now`
    for (const { key } of entries) {
      if (!goes(decisions.get(keyText(key))) || !isChild(key, parent, plural(key))) continue
      decisions.set(keyText(key), blocked({ code: 'parentUndecided', text }))
    }
  }
}

/** Blocks a namespace or a definition while an object in it, or of its kind, has to stay. */
function blockParents(input: PruneInput, decisions: Map<string, PruneDecision>): void {
  const { entries, wanted, live, plural } = input
  const kept = entries.filter(({ key }) => {
    const text = keyText(key)
    const kind = decisions.get(text)?.kind
    return kind === 'blocked' || (kind === 'forget' && live.has(text))
  })
  const stay = [...wanted, ...kept.map(({ key }) => key)]
  for (const { key } of entries.filter((entry) => isParent(entry.key))) {
    const text = keyText(key)
    const child = goes(decisions.get(text)) && stay.find((one) => isChild(one, key, plural(one)))
    if (child)
      decisions.set(
        text,
        blocked({ code: 'childStays', text: `${keyName(child)} stays, and would be deleted with it` }),
      )
  }
}

/** Blocks a parent with contents that cannot be listed: nobody can approve these. Contents of others need approval. */
function blockUnlisted({ entries, dependents }: PruneInput, decisions: Map<string, PruneDecision>): void {
  for (const { key } of entries) {
    const text = keyText(key)
    const [listed, decision] = [dependents?.get(text), decisions.get(text)]
    if (!listed || !goes(decision)) continue
    if ('refused' in listed) {
      const reason = `what would go with it cannot be listed: ${listed.refused}`
      const code = listed.isForbidden ? 'dependentsForbidden' : 'dependentsNotListed'
      decisions.set(text, blocked({ code, text: reason }))
    } else if (listed.text !== '' && decision?.kind === 'delete') {
      decisions.set(text, { ...decision, kind: 'confirm', reason: { code: 'withOthers', text: 'others go with it' } })
    }
  }
}

/** Requires one approval for a namespace or a definition and all objects that are deleted with it. */
function confirmFamilies(input: PruneInput, decisions: Map<string, PruneDecision>): void {
  const { entries, plural } = input
  const parents = entries.filter(({ key }) => isParent(key))
  const families = parents.map(({ key: parent }) => {
    const children = entries.filter(({ key }) => isChild(key, parent, plural(key)))
    return { parent, children: children.map(({ key }) => key) }
  })
  const isAsking = (key: ObjectKey) => decisions.get(keyText(key))?.kind === 'confirm'
  const ask = (key: ObjectKey, reason: ApprovalReason) => {
    const decision = decisions.get(keyText(key))
    if (decision?.kind !== 'delete') return false
    decisions.set(keyText(key), { ...decision, kind: 'confirm', reason })
    return true
  }
  // an object may be in one parent and of another: repeat until nothing changes
  for (let isChanged = true; isChanged; ) {
    isChanged = false
    for (const { parent, children } of families) {
      const child = children.find(isAsking)
      if (child && ask(parent, { code: 'withChild', text: `${keyName(child)} goes with it` })) isChanged = true
      if (!isAsking(parent)) continue
      const reason = { code: 'withParent', text: `it goes with ${keyName(parent)}` } as const
      for (const key of children) if (ask(key, reason)) isChanged = true
    }
  }
}

function goes(decision: PruneDecision | undefined): boolean {
  return decision?.kind === 'delete' || decision?.kind === 'confirm'
}

function waitsForOthers(decision: PruneDecision | undefined): boolean {
  return decision?.kind === 'blocked' && decision.blocked.until === 'othersKnown'
}

/** True if the round has to be repeated: an object cannot be decided upon, or may be on its way. */
export function isUndecided({ decisions }: PrunePlan): boolean {
  return [...decisions.values()].some((decision) => {
    if (decision.kind !== 'blocked') return false
    const { code } = decision.blocked
    return ['failed', 'planned'].includes(stateOf(decision.blocked)) || ['commitFailed', 'rolloutRuns'].includes(code)
  })
}

function blocked(block: Blocked): PruneDecision {
  return { kind: 'blocked', blocked: block }
}

function digestOf(
  { commit, entries, dependents }: PruneInput,
  decisions: ReadonlyMap<string, PruneDecision>,
  { id }: PruneOptions,
): string {
  const deletes = entries.flatMap(({ key }) => {
    const decision = decisions.get(keyText(key))
    const listed = dependents?.get(keyText(key))
    if (decision?.kind !== 'confirm') return []
    return [{ key, uid: decision.live.uid, ...(listed && 'digest' in listed && { dependents: listed.digest }) }]
  })
  return planDigest({ id, commit }, deletes)
}
