import { keyText, type ObjectKey } from '../../../kubernetes/key.ts'
import type { Clock } from '../../../lib/clock.ts'
import { maxObjects } from '../../../proto/gitops/limits.ts'
import type { ApiLane } from '../../cluster/api-lanes.ts'
import { applyCommit } from './apply/apply-commit.ts'
import { emptyBuild } from './build/build-commit.ts'
import { ApprovedPlan } from './delete/approved-plan.ts'
import { dryRun } from './dry-run.ts'
import { type FoundInCommit, SourceInventory, type SourceInventoryComponents } from './inventory/source-inventory.ts'
import type { ObjectWaits } from './live/object-waits.ts'
import { type LiveObjects, readLiveObjects } from './live/read-live.ts'
import type { SharedKinds } from './live/shared-kinds.ts'
import type { RepositoryFile } from './manifests/manifest.ts'
import { isAllApplied, lastGoodOf, roundDone } from './outcome.ts'
import { isUndecided } from './prune/prune-plan.ts'
import { fullPlan, prune, pruneInput } from './prune/prune-stage.ts'
import type { Build, DryRun, Outcome, Refusal, RoundDone, SourceClaims, Step } from './round.ts'
import type { SourceOptions } from './source-options.ts'

export interface SourceApi {
  /** of agentk itself */
  readonly ownLane: ApiLane
  /** acts as the source's account */
  readonly accountLane: ApiLane
  /** of agentk itself: what is asked for by the thousand, behind all else */
  readonly scanLane: ApiLane
  readonly waits: ObjectWaits
  readonly kinds: SharedKinds
}

export interface ReconcileComponents {
  readonly build: (files: readonly RepositoryFile[], signal: AbortSignal) => Promise<Build | Refusal>
  readonly api: SourceApi
  readonly inventory: Omit<SourceInventoryComponents, 'lane'>
  /** its own, and those of the agent's other sources */
  readonly claims: SourceClaims
  readonly clock: Clock
}

/** What a round is about, beside the source. */
export interface RoundInput extends FoundInCommit {
  readonly commit: string
  readonly files: readonly RepositoryFile[]
  /** digest of the plan that somebody has approved; empty: none */
  readonly approved: string
  /** takes that back, whether or not it is the plan's, before anything goes: it is good once. @throws: nothing goes */
  readonly useApproval: (signal: AbortSignal) => Promise<void>
  /** nothing is to be written: the source claims what the commit wants, and that is all */
  readonly isSuspended: boolean
  /** what the pod that led before has sent may not have landed yet: the round is to be made again once it has */
  readonly mayHaveCallsInFlight: boolean
  /** aborts once a newer commit has come: what has not begun is left */
  readonly superseded: AbortSignal
  readonly onStep: (step: Step) => void
}

export type RemovalInput = Pick<RoundInput, 'approved' | 'useApproval' | 'mayHaveCallsInFlight' | 'superseded'>

/**
 * Brings one commit to the cluster. Killed anywhere, the next round finds in the inventory all that this one may have
 * made. The outcome goes to StatusSink, by FollowMode.
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
  const standing = options.adopt.find((id) => claims.stands(id) === 'yes')
  // what may be another one's, once its project is known, is adopted after that
  const source = { ...options, adopt: options.adopt.filter((id) => claims.stands(id) === 'no') }
  const built = standing === undefined ? await components.build(input.files, signal) : adoptsStanding(standing)
  const build = built.kind === 'built' && !claims.hasRoom(keyed(built.manifests)) ? withoutRoom(built) : built
  if (build.kind === 'refused') {
    const entries = await inventory.own.load(signal)
    const keys = keyed(entries.values())
    claims.claim({ commit: '', keys, isLastGood: keys.size > 0 })
    return { isWaitingForOthers: false, ...build, lastGood: lastGoodOf(inventory.own.commit, entries.values()) }
  }
  claims.claim({ commit: input.commit, keys: keyed(build.manifests) }) // other sources may decide now
  if (input.isSuspended) return { kind: 'suspended' }
  if (input.files.length === 0 && (await inventory.own.load(signal)).size === 0) return nothingChosen(source)
  if (source.dryRunStrategy !== 'none') return await runDry(components, input.commit, build, source, signal)
  return await runRound(components, { ...input, isRemoval: false }, build, source, signal)
}

interface RoundSteps extends Omit<RoundInput, 'files' | 'isSuspended'> {
  /** the source has left the configuration: nothing is wanted */
  readonly isRemoval: boolean
}

/**
 * One round: the inventory is read, and what it has is looked up in the cluster; it says what may be made before anything
 * is; the commit is applied; what has left it is planned for, and deleted; the inventory is saved.
 *
 * What is never deleted: what is not known to be the source's own (`read-live`, `known-entries`); what a blocker keeps
 * (`blockers`) or an approval is missing for (`prune-plan`); what has changed since it was looked up, or goes with others
 * that came since (`Deleter`, `checkParent`). A round that was superseded begins nothing more (`prune`, `Deleter`), and
 * `ApiLanes` sends nothing for a pod that leads no longer.
 */
async function runRound(
  { api, claims, clock, inventory: inventories }: Omit<ReconcileComponents, 'build'>,
  input: RoundSteps,
  build: Build,
  source: SourceOptions,
  signal: AbortSignal,
): Promise<RoundDone> {
  const { commit, superseded, onStep } = input
  const approval = new ApprovedPlan(input.approved, input.useApproval)
  const inventory = await SourceInventory.load({ ...inventories, lane: api.accountLane }, source, signal, input)
  inventory.addWanted(build)
  const readLive = () => readLiveOf(api, inventory, build, source, signal)
  const live = await readLive()
  await inventory.begin(signal) // before anything is made
  try {
    onStep({ kind: 'began', objects: build.manifests.length })
    const applying = { commit, build, inventory, approval, readLive, superseded, onStep }
    const { ends, notes } = await applyCommit({ ...api, clock, claims }, applying, source, live, signal)
    const applied = { ...input, build, inventory, live, ends, notes: [...input.leftOut, ...notes] }
    const left = pruneInput(applied, claims)
    const plan = await fullPlan(api, left, source, signal)
    const isOpen =
      plan.isWaitingForOthers || isUndecided(plan) || left.failed?.isAll === true || input.mayHaveCallsInFlight
    const pruning = { plan, entries: left.entries, inventory, approval, isOpen, superseded, onStep }
    const kinds = await api.kinds.current(signal) // with those that the commit has defined
    const pruned = await prune({ ...api, clock, kinds }, pruning, source, signal)
    const done = roundDone(applied, plan, pruned, source, claims)
    const isDecided = !plan.isWaitingForOthers && !isUndecided(plan) && !superseded.aborted && done.planDigest === ''
    await inventory.ended({ applied: !input.isRemoval && isAllApplied(ends) ? commit : undefined, isDecided }, signal)
    return done
  } finally {
    if (!signal.aborted) await inventory.save(signal)
  }
}

/** What is there of all that the source may have made. */
async function readLiveOf(
  { accountLane, kinds: shared }: SourceApi,
  inventory: SourceInventory,
  build: Build,
  source: SourceOptions,
  signal: AbortSignal,
): Promise<LiveObjects> {
  const entries = [...inventory.entries.values()]
  // a kind that is not known is not taken for one that is gone, before somebody was asked
  const isKnown = entries.every(({ key }) => build.kinds.find(key))
  const kinds = isKnown ? build.kinds : await shared.read(signal)
  return await readLiveObjects(entries, { lane: accountLane, kinds }, source, signal)
}

/** Nothing is written: what would be, and what would be deleted. */
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

/** What a source has made is taken over once it has left the configuration: two would apply against one another. */
function adoptsStanding(id: string): Extract<Outcome, { kind: 'refused' }> {
  const text = `adopt: ${id} is a source of this configuration still: take it out there, or out of adopt`
  return { kind: 'refused', problems: [{ file: '', line: 0, text }], isWaitingForOthers: true }
}

/** What a source has made waits for approval to go; one that has made nothing has a path that is misspelt. */
function nothingChosen({ paths }: SourceOptions): Extract<Outcome, { kind: 'refused' }> {
  const chosen = paths.map(({ glob, file }) => glob ?? file).join(', ')
  const text = `no file of the repository is chosen by paths: ${chosen}`
  return { kind: 'refused', problems: [{ file: '', line: 0, text }], isWaitingForOthers: false }
}

function withoutRoom({ manifests }: Build): Refusal & { isWaitingForOthers: boolean } {
  const text = `all sources of the agent want more than ${maxObjects} objects: with the ${manifests.length} of this one`
  return { kind: 'refused', problems: [{ file: '', line: 0, text }], isWaitingForOthers: true }
}

function keyed(all: Iterable<{ readonly key: ObjectKey }>): ReadonlyMap<string, ObjectKey> {
  return new Map(Array.from(all, ({ key }) => [keyText(key), key]))
}

/**
 * Decides upon all that a source has made which the configuration has no longer: as a commit would that wants nothing. Its
 * inventory goes with the last of it: without it nobody would know of the rest.
 *
 * @param forget - deletes what reports the source. @throws as `reconcile`
 */
export async function reconcileRemoval(
  components: Omit<ReconcileComponents, 'build'> & { readonly forget: (signal: AbortSignal) => Promise<void> },
  input: RemovalInput,
  source: SourceOptions,
  signal: AbortSignal,
): Promise<RoundDone> {
  const build = emptyBuild(await components.api.kinds.current(signal))
  const steps = { ...input, commit: '', leftOut: [], onStep: () => undefined, isRemoval: true }
  const done = await runRound(components, steps, build, source, signal)
  if (done.entries.size > 0) return done
  await components.forget(signal)
  await components.inventory.own.remove(signal)
  return done
}

/** Of a source that has left the configuration: what it has made stays, and nobody knows of it any more. @throws as `reconcile` */
export async function forgetSource(
  { inventory, forget }: Pick<ReconcileComponents, 'inventory'> & { forget: (signal: AbortSignal) => Promise<void> },
  signal: AbortSignal,
): Promise<void> {
  await inventory.own.load(signal)
  await forget(signal)
  await inventory.own.remove(signal)
}
