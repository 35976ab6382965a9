import { keyText, type ObjectKey } from '../../../../kubernetes/key.ts'
import type { ApiLane } from '../../../cluster/background-requests.ts'
import type { ApprovedPlan } from '../delete/approved-plan.ts'
import { Deleter, type DeleterComponents, type DeleterOptions, type DeletionListener } from '../delete/deleter.ts'
import type { SourceInventory } from '../inventory/source-inventory.ts'
import type { LiveObjects } from '../live/read-live.ts'
import type { SharedKinds } from '../live/shared-kinds.ts'
import type { Build, InventoryEntry, RoundEnd, SourceClaims } from '../round.ts'
import type { SourceOptions } from '../source-options.ts'
import { stateOf } from './blockers.ts'
import { DependentsOfPlan } from './dependents.ts'
import { failedCommit } from './failed-commit.ts'
import {
  configurationOf,
  type PruneDecision,
  type PruneInput,
  type PrunePlan,
  parentsOf,
  planPrune,
  uidsThatGo,
} from './prune-plan.ts'
import { rolloutUses } from './rollouts.ts'

/** Facts of a commit after its apply. */
export interface AppliedCommit {
  readonly commit: string
  /** the source has left the configuration */
  readonly isRemoval: boolean
  readonly mayHaveCallsInFlight: boolean
  readonly build: Build
  readonly inventory: SourceInventory
  readonly live: LiveObjects
  readonly ends: readonly RoundEnd[]
  /** notes for users about the apply */
  readonly notes: readonly string[]
}

/** Returns the input of a plan: the objects that have left the source, and the claims of others. */
export function pruneInput(applied: AppliedCommit, claims: SourceClaims): PruneInput {
  const { commit, isRemoval, mayHaveCallsInFlight, build, inventory, live, ends } = applied
  const wanted = new Set(build.manifests.map(({ key }) => keyText(key)))
  return {
    commit,
    isRemoval,
    mayHaveCallsInFlight,
    failed: failedCommit(ends),
    entries: [...inventory.known.values()].filter(({ key }) => !wanted.has(keyText(key))),
    inventorySize: inventory.known.size,
    wantedSize: wanted.size,
    wanted: [...build.manifests.map(({ key }) => key), ...claims.wanted()],
    chosenAnew: inventory.chosenAnew,
    isChartPartial: build.isPartial,
    isHook: (key) => build.hooks.has(keyText(key)),
    plural: (key) => build.kinds.find(key)?.plural,
    live: live.objects,
    appliedUids: new Set(ends.flatMap(({ end }) => ('live' in end && end.live ? [end.live.uid] : []))),
    newOwner: claims.newOwner,
    unread: (key) => claims.unknownClaim(key, commit),
  }
}

/** Plan with a check to repeat right before a namespace or a definition is deleted. */
export interface FullPlan extends PrunePlan, Pick<PruneInput, 'dependents'> {
  /** notes for users about the plan */
  readonly notes: readonly string[]
  /** @returns the reason to keep it; undefined: none */
  readonly checkParent: (key: ObjectKey, signal: AbortSignal) => Promise<string | undefined>
}

interface PlanComponents {
  readonly scanLane: ApiLane
  readonly accountLane: ApiLane
  readonly kinds: SharedKinds
}

/** Makes a plan that names all objects it deletes, also those of others. Configuration of running Pods stays. */
export async function fullPlan(
  { scanLane, accountLane, kinds: shared }: PlanComponents,
  input: PruneInput,
  source: SourceOptions,
  signal: AbortSignal,
): Promise<FullPlan> {
  const first = planPrune(input, source)
  const going = configurationOf(first, input.entries)
  const rollouts = { lanes: [scanLane, accountLane], kinds: () => shared.current(signal) }
  const { uses, notes } = await rolloutUses(rollouts, { going, wanted: input.wanted }, signal)
  const left: PruneInput = { ...input, inUse: (key) => uses.get(keyText(key)) }
  const plan = uses.size > 0 ? planPrune(left, source) : first
  const parents = parentsOf(plan, left.entries)
  if (parents.length === 0) return { ...plan, notes, checkParent: async () => undefined }
  const listing = new DependentsOfPlan({ lane: scanLane, kinds: (asking) => shared.read(asking) }, uidsThatGo(plan))
  const dependents = await listing.list(parents, signal)
  const checkParent = async (key: ObjectKey, checking: AbortSignal) => {
    const planned = dependents.get(keyText(key))
    return planned && 'seen' in planned ? await listing.cameSince(key, planned, checking) : undefined
  }
  return { ...planPrune({ ...left, dependents }, source), notes, dependents, checkParent }
}

interface PruneStep {
  readonly plan: FullPlan
  readonly entries: PruneInput['entries']
  readonly inventory: SourceInventory
  readonly approval: ApprovedPlan
  /** the approval may be for a later plan */
  readonly isOpen: boolean
  readonly superseded: AbortSignal
  readonly onStep: (step: { kind: 'pruned'; key: ObjectKey }) => void
}

/**
 * Deletes the objects that a plan deletes without approval, or all of it once approved.
 *
 * @returns the deleted objects. @throws the connection's error, or the signal's reason
 */
export async function prune(
  components: DeleterComponents,
  { plan, entries, inventory, approval, isOpen, superseded, onStep }: PruneStep,
  options: DeleterOptions,
  signal: AbortSignal,
): Promise<readonly ObjectKey[]> {
  const isApproved = plan.digest !== '' && plan.digest === approval.digest
  if (isApproved || (approval.digest !== '' && !isOpen)) await approval.use(signal)
  const deletables = entries.flatMap((entry) => {
    const decision = plan.decisions.get(keyText(entry.key))
    noteDecision(inventory, entry, decision, isApproved)
    const goes = decision?.kind === 'delete' || (decision?.kind === 'confirm' && isApproved)
    return goes ? [{ entry, live: decision.live }] : []
  })
  const deleted: ObjectKey[] = []
  if (deletables.length === 0 || superseded.aborted) return deleted
  const onEnd: DeletionListener['onEnd'] = (entry, survives) => {
    inventory.pruned(entry, survives)
    if (survives === undefined) deleted.push(entry.key)
    onStep({ kind: 'pruned', key: entry.key })
  }
  await new Deleter(components, options).deleteAll(
    deletables,
    { onEnd, checkParent: plan.checkParent },
    superseded,
    signal,
  )
  return deleted
}

/** Records a plan's decision on an entry, except for a deletion. */
function noteDecision(
  inventory: SourceInventory,
  entry: InventoryEntry,
  decision: PruneDecision | undefined,
  isApproved: boolean,
): void {
  if (decision?.kind === 'forget') inventory.forget(entry)
  if (decision?.kind === 'blocked') inventory.stays(entry, stateOf(decision.blocked), decision.blocked.text)
  if (decision?.kind === 'confirm' && !isApproved) inventory.stays(entry, 'waits', decision.reason.text)
}
