import { createHash } from 'node:crypto'
import type { InventoryEntry } from '../inventory/entry.ts'
import type { LiveObject } from '../live/live-object.ts'
import { keyText, type ObjectKey } from '../manifests/object-key.ts'
import { outsideReach } from '../manifests/scope.ts'
import { pruneLimitFrom, type SourceOptions } from '../source-options.ts'

export type PruneOptions = Pick<
  SourceOptions,
  'id' | 'prune' | 'pruneConfirm' | 'pruneLimit' | 'namespaces' | 'resourceInclusions' | 'resourceExclusions'
>

/**
 * What becomes of an object that the commit does not want any more.
 *
 * `forget`: it is gone, or another's; `keep`: it stays in the inventory, in that state; `delete`: it goes now; `confirm`:
 * once somebody approves.
 */
export type PruneDecision =
  | { readonly is: 'forget' }
  | { readonly is: 'keep'; readonly state: 'failed' | 'waits' | 'detached'; readonly reason: string }
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
  /** by `keyText`; not there: it is gone; null: it cannot be read now */
  readonly live: ReadonlyMap<string, LiveObject | null>
  /** of what has just been applied, under whatever key */
  readonly appliedUids: ReadonlySet<string>
  /** by `keyText`: what must go so that an apply can succeed */
  readonly wantedFree?: ReadonlySet<string>
  /** a source of this agent that wants it */
  readonly heir: (key: ObjectKey) => string | undefined
}

export interface PrunePlan {
  /** by `keyText` */
  readonly decisions: ReadonlyMap<string, PruneDecision>
  /** what an approval names; empty: nothing waits for one */
  readonly digest: string
}

const definitions = 'CustomResourceDefinition'

/** Decides on each object that has left a source; deletes nothing. */
export function prunePlan(input: PruneInput, options: PruneOptions): PrunePlan {
  const decisions = new Map(input.entries.map((entry) => [keyText(entry.key), decide(entry, input, options)]))
  const all = unusual(input, decisions, options)
  for (const [text, decision] of decisions) {
    if (all && decision.is === 'delete') decisions.set(text, { ...decision, is: 'confirm', reason: all })
  }
  waitWithParents(input.entries, decisions)
  return { decisions, digest: digestOf(input, decisions, options) }
}

function decide(entry: InventoryEntry, input: PruneInput, options: PruneOptions): PruneDecision {
  const text = keyText(entry.key)
  const live = input.live.get(text)
  if (live === undefined) return { is: 'forget' }
  if (live === null) return keep('failed', 'it cannot be read now')
  if (live.owner !== '' && live.owner !== options.id) return { is: 'forget' }
  const outside = outsideReach(entry.key, options)
  if (entry.state === 'detached') return keep('detached', entry.reason)
  if (outside) return keep('detached', outside)
  const heir = input.heir(entry.key)
  if (heir !== undefined) return keep('detached', `source ${heir} wants it`)
  if (live.prune === 'never') return keep('detached', 'its annotations say never to delete it')
  return guarded(entry, live, input) ?? asked(entry, live, input, options)
}

/** What is perhaps not the object that this source has made. */
function guarded(entry: InventoryEntry, live: LiveObject, input: PruneInput): PruneDecision | undefined {
  if (live.owner === '') return keep('failed', 'its owner annotation is gone: somebody may have taken it')
  if (entry.uid !== '' && entry.uid !== live.uid) return keep('failed', 'another object has its name by now')
  if (live.isControlled) return keep('failed', 'a controller keeps it')
  if (input.appliedUids.has(live.uid)) return { is: 'forget' } // the same object, by the name of another group
  if (live.isBeingDeleted) return keep('failed', 'it is being deleted')
  return undefined
}

function asked(entry: InventoryEntry, live: LiveObject, input: PruneInput, options: PruneOptions): PruneDecision {
  if (!options.prune) return keep('waits', 'prune: false')
  const { kind } = entry.key
  if (input.wantedFree?.has(keyText(entry.key)))
    return { is: 'confirm', live, reason: 'what comes needs what it holds' }
  if (live.prune === 'confirm') return { is: 'confirm', live, reason: 'its annotation asks for approval' }
  const isOfKind = options.pruneConfirm.includes(kind) && live.prune !== 'allow'
  return isOfKind ? { is: 'confirm', live, reason: `prune_confirm: ${kind}` } : { is: 'delete', live }
}

function keep(state: 'failed' | 'waits' | 'detached', reason: string): PruneDecision {
  return { is: 'keep', state, reason }
}

/** Why all that would go waits. */
function unusual(
  { inventorySize, wantedSize }: PruneInput,
  decisions: ReadonlyMap<string, PruneDecision>,
  { pruneLimit }: PruneOptions,
): string | undefined {
  const count = [...decisions.values()].filter(({ is }) => is === 'delete' || is === 'confirm').length
  if (wantedSize === 0) return 'the commit wants nothing at all'
  const limit = 'objects' in pruneLimit ? pruneLimit.objects : (inventorySize * pruneLimit.percent) / 100
  if (inventorySize <= pruneLimitFrom || count <= limit) return undefined
  return `prune_limit: ${count} of ${inventorySize} objects`
}

/** What goes with a namespace, or with the definition of its kind, waits for the same approval. */
function waitWithParents(entries: readonly InventoryEntry[], decisions: Map<string, PruneDecision>): void {
  const waits = entries.filter(({ key }) => decisions.get(keyText(key))?.is === 'confirm').map(({ key }) => key)
  const namespaces = new Set(
    waits.filter(({ group, kind }) => group === '' && kind === 'Namespace').map(({ name }) => name),
  )
  // `widgets.example.com`: the group is what follows the first dot
  const groups = waits.filter(({ kind }) => kind === definitions).map(({ name }) => name.slice(name.indexOf('.') + 1))
  for (const { key } of entries) {
    const decision = decisions.get(keyText(key))
    if (decision?.is !== 'delete') continue
    const parent = namespaces.has(key.namespace)
      ? `Namespace ${key.namespace}`
      : groups.includes(key.group) && `a definition of ${key.group}`
    if (parent) decisions.set(keyText(key), { ...decision, is: 'confirm', reason: `it goes with ${parent}` })
  }
}

function digestOf({ commit }: PruneInput, decisions: ReadonlyMap<string, PruneDecision>, { id }: PruneOptions): string {
  const lines = [...decisions].flatMap(([text, decision]) =>
    decision.is === 'confirm' ? [`${text} ${decision.live.uid}`] : [],
  )
  if (lines.length === 0) return ''
  return createHash('sha256')
    .update(JSON.stringify([id, commit, lines.sort()]))
    .digest('hex')
    .slice(0, 16)
}
