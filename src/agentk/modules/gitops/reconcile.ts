import type { ObjectKey } from '../../../kubernetes/key.ts'
import type { Clock } from '../../../lib/clock.ts'
import type { ApiLane } from '../../cluster/background-requests.ts'
import { applyCommit } from './apply/apply-commit.ts'
import type { ApplyRunComponents } from './apply/apply-run.ts'
import { ignoredFields, readRules } from './apply/ignored-fields.ts'
import { emptyBuild } from './build/build-commit.ts'
import { adoptingNow, adoptsStanding, checkRoom, keyed, nothingChosen } from './build/commit-refusals.ts'
import { ApprovedPlan } from './delete/approved-plan.ts'
import { dryRun } from './dry-run.ts'
import { type FoundInCommit, SourceInventory, type SourceInventoryComponents } from './inventory/source-inventory.ts'
import type { ClusterKinds } from './live/cluster-kinds.ts'
import type { ObjectWaits } from './live/object-waits.ts'
import { type LiveObjects, readLiveObjects, type WatchedList } from './live/read-live.ts'
import type { SharedKinds } from './live/shared-kinds.ts'
import type { RepositoryFile } from './manifests/manifest.ts'
import { isAllApplied, lastGoodOf, roundDone } from './outcome.ts'
import { isUndecided } from './prune/prune-plan.ts'
import { fullPlan, prune, pruneInput } from './prune/prune-stage.ts'
import type { Build, DryRun, InventoryEntry, Outcome, Refusal, RoundDone, SourceClaims, Step } from './round.ts'
import type { SourceOptions } from './source-options.ts'

export interface SourceApi {
  /** acts as agentk itself */
  readonly ownLane: ApiLane
  /** acts as the source's account */
  readonly accountLane: ApiLane
  /** acts as agentk itself, for thousands of requests; all other requests go first */
  readonly scanLane: ApiLane
  readonly waits: ObjectWaits
  readonly kinds: SharedKinds
}

export interface ReconcileComponents {
  readonly build: (files: readonly RepositoryFile[], signal: AbortSignal) => Promise<Build | Refusal>
  readonly api: SourceApi
  readonly inventory: Omit<SourceInventoryComponents, 'lane'>
  /** claims of the source and of the agent's other sources */
  readonly claims: SourceClaims
  readonly clock: Clock
}

/** Input of a round, beside the source. */
export interface RoundInput extends FoundInCommit {
  readonly commit: string
  readonly files: readonly RepositoryFile[]
  /** digest of the approved plan; empty: none */
  readonly approved: string
  /** removes the approval before a deletion, even if it is for another plan. @throws: nothing may be deleted */
  readonly useApproval: (signal: AbortSignal) => Promise<void>
  /** nothing is written: the source only claims the objects of the commit */
  readonly isSuspended: boolean
  /** Begins the watches of these objects, if the source has none yet: what they list need not be listed again. */
  readonly watch?: (entries: Iterable<InventoryEntry>, kinds: ClusterKinds) => WatchedList | undefined
  /** as in ApplyRun */
  readonly judge: ApplyRunComponents['judge']
  readonly isDrifted: ApplyRunComponents['isDrifted']
  /** calls of the previous leader may still arrive: the round is repeated once they have */
  readonly mayHaveCallsInFlight: boolean
  /** aborts when a newer commit has come: no further step begins */
  readonly superseded: AbortSignal
  readonly onStep: (step: Step) => void
}

export type RemovalInput = Pick<RoundInput, 'approved' | 'useApproval' | 'mayHaveCallsInFlight' | 'superseded'>

/**
 * Applies one commit to the cluster. If the process is killed at any point, the next round finds in the inventory all
 * that this round may have made. FollowMode passes the outcome to StatusSink.
 *
 * @throws the connection's error, or the signal's reason: the commit is to be tried again
 */
export async function reconcile(
  components: ReconcileComponents,
  input: RoundInput,
  options: SourceOptions,
  signal: AbortSignal,
): Promise<Outcome> {
  const { claims, inventory } = components
  const source = adoptingNow(options, claims)
  const built = adoptsStanding(options, claims) ?? (await components.build(input.files, signal))
  const build = checkRoom(built, claims)
  if (build.kind === 'refused') {
    const entries = await inventory.own.load(signal)
    const keys = keyed(entries.values())
    claims.claim({ commit: '', keys, isLastGood: keys.size > 0 })
    return { isWaitingForOthers: false, ...build, lastGood: lastGoodOf(inventory.own.commit, entries.values()) }
  }
  claims.claim({ commit: input.commit, keys: keyed(build.manifests) }) // other sources can decide now
  if (input.isSuspended) {
    return {
      kind: 'suspended',
      manifests: build.manifests,
      entries: await inventory.own.load(signal),
      kinds: build.kinds,
    }
  }
  if (input.files.length === 0 && (await inventory.own.load(signal)).size === 0) return nothingChosen(source)
  if (source.dryRunStrategy !== 'none') return await runDry(components, input.commit, build, source, signal)
  return await runRound(components, { ...input, isRemoval: false }, build, source, signal)
}

interface RoundSteps extends Omit<RoundInput, 'files' | 'isSuspended'> {
  /** the source has left the configuration, and wants nothing */
  readonly isRemoval: boolean
}

/**
 * Runs one round:
 *
 * - It loads the inventory, and reads the objects of its entries from the cluster.
 * - It saves in the inventory what it may make, and applies the commit.
 * - It plans and runs the deletion of objects that have left the commit, and saves the inventory.
 *
 * These objects are never deleted:
 *
 * - objects that are not known to be the source's own (`read-live`, `known-entries`)
 * - objects that a blocker keeps (`blockers`), or whose approval is missing (`prune-plan`)
 * - objects that have changed since they were read, and parents of newer objects (`Deleter`, `checkParent`)
 *
 * A superseded round begins no further step (`prune`, `Deleter`). `ApiLanes` sends nothing for a pod that no longer
 * leads.
 */
async function runRound(
  { api, claims, clock, inventory: inventories }: Omit<ReconcileComponents, 'build'>,
  input: RoundSteps,
  build: Build,
  source: SourceOptions,
  signal: AbortSignal,
): Promise<RoundDone> {
  const { commit, superseded, onStep, judge, isDrifted } = input
  const approval = new ApprovedPlan(input.approved, input.useApproval)
  const inventory = await SourceInventory.load({ ...inventories, lane: api.accountLane }, source, signal, input)
  inventory.addWanted(build)
  const readLive = () => readLiveOf(api, inventory, build, source, signal)
  const live = await readLiveOf(api, inventory, build, source, signal, input.watch)
  await inventory.begin(signal) // before anything is made
  try {
    onStep({ kind: 'began', objects: build.manifests.length })
    const applying = { commit, build, inventory, approval, readLive, superseded, onStep, judge, isDrifted }
    const { ends, notes } = await applyCommit({ ...api, clock, claims }, applying, source, live, signal)
    const applied = { ...input, build, inventory, live, ends, notes: [...input.leftOut, ...notes] }
    const left = pruneInput(applied, claims)
    const plan = await fullPlan(api, left, source, signal)
    const isOpen =
      plan.isWaitingForOthers || isUndecided(plan) || left.failed?.isAll === true || input.mayHaveCallsInFlight
    const pruning = { plan, entries: left.entries, inventory, approval, isOpen, superseded, onStep }
    const kinds = await api.kinds.current(signal) // with those that the commit has defined
    const pruned = await prune({ ...api, clock, kinds }, pruning, source, signal)
    const done = roundDone(applied, plan, { pruned, kinds }, source, claims)
    const isDecided = !plan.isWaitingForOthers && !isUndecided(plan) && !superseded.aborted && done.planDigest === ''
    await inventory.ended({ applied: !input.isRemoval && isAllApplied(ends) ? commit : undefined, isDecided }, signal)
    return done
  } finally {
    if (!signal.aborted) await inventory.save(signal)
  }
}

/** Reads from the cluster the objects that the source may have made. */
async function readLiveOf(
  { accountLane, kinds: shared }: SourceApi,
  inventory: SourceInventory,
  build: Build,
  source: SourceOptions,
  signal: AbortSignal,
  watch?: RoundInput['watch'],
): Promise<LiveObjects> {
  const entries = [...inventory.entries.values()]
  // an unknown kind counts as removed only after a new discovery
  const isKnown = entries.every(({ key }) => build.kinds.find(key))
  const kinds = isKnown ? build.kinds : await shared.read(signal)
  const rules = readRules(source.drift.ignore, source.manager)
  const ignoredOf = (key: ObjectKey) => ignoredFields(rules, { key })
  const watched = watch?.(inventory.known.values(), kinds)
  return await readLiveObjects(entries, { lane: accountLane, kinds, ignoredOf, watched }, source, signal)
}

/** Returns what would be applied and deleted; writes nothing. */
async function runDry(
  { api, claims, inventory: inventories }: Omit<ReconcileComponents, 'build'>,
  commit: string,
  build: Build,
  source: SourceOptions,
  signal: AbortSignal,
): Promise<DryRun> {
  const lane = api.accountLane
  const inventory = await SourceInventory.load({ ...inventories, lane }, source, signal)
  inventory.addWanted(build)
  const live = await readLiveOf(api, inventory, build, source, signal)
  return await dryRun({ lane, ownLane: api.ownLane, claims }, { commit, build, inventory, live }, source, signal)
}

/**
 * Decides on all objects of a source that has left the configuration, as for a commit that wants nothing.
 * The inventory is the only record of these objects, so it is removed after the last of them.
 *
 * @param forget - deletes the objects that report the source. @throws as `reconcile`
 */
export async function reconcileRemoval(
  components: Omit<ReconcileComponents, 'build'> & { readonly forget: (signal: AbortSignal) => Promise<void> },
  input: RemovalInput,
  source: SourceOptions,
  signal: AbortSignal,
): Promise<RoundDone> {
  const build = emptyBuild(await components.api.kinds.current(signal))
  const judge: RoundInput['judge'] = async () => ({ kind: 'write' }) // nothing is wanted, and so nothing judged
  const steps = {
    ...input,
    commit: '',
    leftOut: [],
    onStep: () => undefined,
    judge,
    isDrifted: () => false,
    isRemoval: true,
  }
  const done = await runRound(components, steps, build, source, signal)
  if (done.entries.size > 0) return done
  await components.forget(signal)
  await components.inventory.own.remove(signal)
  return done
}

/** Removes the records of a source that has left the configuration; its objects stay. @throws as `reconcile` */
export async function forgetSource(
  { inventory, forget }: Pick<ReconcileComponents, 'inventory'> & { forget: (signal: AbortSignal) => Promise<void> },
  signal: AbortSignal,
): Promise<void> {
  await inventory.own.load(signal)
  await forget(signal)
  await inventory.own.remove(signal)
}
