import { keyName, keyText, type ObjectKey } from '../../../../kubernetes/key.ts'
import { planDigest } from '../delete/approved-plan.ts'
import type { LiveObject } from '../live/live-object.ts'
import { pruneAnnotation } from '../manifests/annotations.ts'
import { isChild, isParent } from '../manifests/parents.ts'
import type { InventoryEntry } from '../round.ts'
import { pruneLimitFrom } from '../source-options.ts'
import { type Blocked, blockedBy, type PruneContext, type PruneOptions, stateOf } from './blockers.ts'
import type { Dependents, NotListed } from './dependents.ts'

/** Why an object goes with approval alone. */
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
 * What becomes of an object that the commit does not want any more.
 *
 * `forget`: it is gone, or another's; `blocked`: it stays in the inventory; `delete`: it goes now; `confirm`: once
 * somebody approves.
 */
export type PruneDecision =
  | { readonly kind: 'forget' }
  | { readonly kind: 'blocked'; readonly blocked: Blocked }
  | { readonly kind: 'delete'; readonly live: LiveObject }
  | { readonly kind: 'confirm'; readonly live: LiveObject; readonly reason: ApprovalReason }

export interface PruneInput extends Omit<PruneContext, 'options'> {
  readonly commit: string
  /** in the inventory, and not wanted */
  readonly entries: readonly InventoryEntry[]
  /** all in the inventory */
  readonly inventorySize: number
  /** all that the commit wants */
  readonly wantedSize: number
  /** what chooses other manifests of a commit than before */
  readonly chosenAnew: string | undefined
  /** what any source wants: it stays whatever is decided */
  readonly wanted: readonly ObjectKey[]
  /** as the API server calls the objects of its kind; undefined: not known */
  readonly plural: (key: ObjectKey) => string | undefined
  /** by `keyText`; not there: it is gone; null: it cannot be read now */
  readonly live: ReadonlyMap<string, LiveObject | null>
  /** of what has just been applied, under whatever key */
  readonly appliedUids: ReadonlySet<string>
  /** by `keyText`: what would go with those that `parentsOf` names; absent: they have not been listed yet */
  readonly dependents?: ReadonlyMap<string, Dependents | NotListed>
}

export interface PrunePlan {
  /** by `keyText` */
  readonly decisions: ReadonlyMap<string, PruneDecision>
  /** what an approval names; empty: nothing waits for one */
  readonly digest: string
  /** something stays until others have claimed what they want */
  readonly isWaitingForOthers: boolean
}

/** Decides on each object that has left a source; deletes nothing. */
export function planPrune(input: PruneInput, options: PruneOptions): PrunePlan {
  const context = { ...input, options }
  const decisions = new Map(input.entries.map((entry) => [keyText(entry.key), decide(entry, input, context)]))
  const isWaitingForOthers = [...decisions.values()].some(waitsForOthers)
  const reason = unusual(input, decisions, options) // children that wait for their parent count: in two parts it is no less
  blockChildren(input, decisions)
  confirmAll(reason, decisions)
  blockParents(input, decisions)
  blockUnlisted(input, decisions)
  confirmFamilies(input, decisions)
  return { decisions, digest: digestOf(input, decisions, options), isWaitingForOthers }
}

/** Uids of what a plan lets go, perhaps with approval: whatever else is in the inventory stays. */
export function uidsThatGo({ decisions }: PrunePlan): ReadonlySet<string> {
  const going = [...decisions.values()].flatMap((decision) => ('live' in decision ? [decision.live.uid] : []))
  return new Set(going)
}

/** Namespaces and definitions that a plan lets go, perhaps with approval: of these it needs what would go with them. */
export function parentsOf({ decisions }: PrunePlan, entries: readonly InventoryEntry[]): readonly ObjectKey[] {
  return entries.flatMap(({ key }) => (isParent(key) && goes(decisions.get(keyText(key))) ? [key] : []))
}

/** ConfigMaps and Secrets that a plan lets go, perhaps with approval: Pods may use them still. */
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

/** It is not what this source has made. */
function isForgotten(
  { uid }: InventoryEntry,
  live: LiveObject,
  { appliedUids }: PruneInput,
  { options: { id, adopt } }: PruneContext,
): boolean {
  if (!['', id, ...adopt].includes(live.owner)) return true
  if (live.owner === '' && uid === '') return true // it was there before, and no apply was taken
  return appliedUids.has(live.uid) // the same object, by the name of another group
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
    return {
      code: 'annotated',
      text: `its annotation ${pruneAnnotation} is ${prune}: confirm, never and allow are known`,
    }
  }
  const isOfKind = pruneConfirm.includes(key.kind) && prune !== 'allow'
  return isOfKind ? { code: 'pruneConfirm', text: `prune_confirm: ${key.kind}` } : undefined
}

/** Why all that would go needs approval. */
function unusual(
  { entries, inventorySize, wantedSize, chosenAnew, isRemoval }: PruneInput,
  decisions: ReadonlyMap<string, PruneDecision>,
  { pruneLimit }: PruneOptions,
): ApprovalReason | undefined {
  // what waits for others, or for a rollout, goes later, perhaps: in two parts it is no less
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

/** What goes with a namespace, or with the definition of its kind, is decided upon when that is. */
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

/** A namespace or a definition stays as long as anything in it, or of its kind, is to stay: that would go with it. */
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
    if (child) decisions.set(text, blocked({ code: 'childStays', text: `${keyName(child)} would go with it` }))
  }
}

/** Nobody can approve what nobody can list; what is there beside the source's own needs approval. */
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

/** What goes with a namespace, or with the definition of its kind, needs the same approval; they need its own. */
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
  // an object may be in one and of the other: until none is left that another makes ask
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

/** Something that has left cannot be decided upon, or may be on its way: it is to be tried again. */
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
