import type { Clock } from '../../../lib/clock.ts'
import { maxObjects } from '../../../proto/gitops-json.ts'
import type { ApiLane } from '../../cluster/api-lanes.ts'
import { Applier } from './apply/applier.ts'
import { type ApplyEnd, ApplyRun, type RoundEnd } from './apply/apply-run.ts'
import { HealthGate } from './apply/health-gate.ts'
import { neededGone } from './apply/needed-gone.ts'
import { type PruneInput, type PrunePlan, prunePlan } from './apply/prune-plan.ts'
import { Pruner } from './apply/pruner.ts'
import { Replacement } from './apply/replacement.ts'
import { type ReplacementPlan, replacementPlan } from './apply/replacement-plan.ts'
import type { EntryState, InventoryEntry } from './inventory/entry.ts'
import type { Inventory } from './inventory/inventory.ts'
import { knownEntries } from './inventory/known-entries.ts'
import type { ObjectWaits } from './live/object-waits.ts'
import { type LiveObjects, readLiveObjects } from './live/read-live.ts'
import type { ManifestProblem, RepositoryFile } from './manifests/manifest.ts'
import { keyText, type ObjectKey } from './manifests/object-key.ts'
import { type Rehearsed, rehearse } from './rehearsal.ts'
import { RoundEntries } from './round-entries.ts'
import { chosenBy, withChoiceOf } from './source-choice.ts'
import type { SourceOptions } from './source-options.ts'
import type { OtherSources } from './source-table.ts'
import { readWanted, type Wanted, type WantedComponents } from './wanted.ts'

export interface RoundComponents extends WantedComponents {
  /** of agentk itself */
  readonly control: ApiLane
  /** acts as the source's account */
  readonly lane: ApiLane
  readonly waits: ObjectWaits
  readonly inventory: Pick<Inventory, 'load' | 'save' | 'options' | 'adopted' | 'saveOptions' | 'remove'>
  /** one that is adopted; undefined: a source of this agent goes by that id, and lets go by itself */
  readonly inventoryOf: (id: string) => Pick<Inventory, 'load'> | undefined
  readonly others: OtherSources
  readonly clock: Clock
}

export interface RoundInput {
  readonly commit: string
  readonly files: readonly RepositoryFile[]
  /** digest of the plan that somebody has approved; empty: none */
  readonly approved: string
  /** takes that back, whether or not it is the plan's, before anything goes: it is good once. @throws: nothing goes */
  readonly useApproval: (signal: AbortSignal) => Promise<void>
  /** nothing is to be written: what the commit wants is told alone */
  readonly isPaused?: boolean
  /** what the pod that led before has sent may not have landed yet: the round is to be made again once it has */
  readonly isSettling?: boolean
  /** its source has left the configuration */
  readonly isRemoval?: boolean
  /** aborts once a newer commit has come: what has not begun is left */
  readonly superseded: AbortSignal
  /** by `keyText`: what the commit wants, before anything is written; or what the source has made, if it is refused */
  readonly onWanted: (keys: ReadonlyMap<string, ObjectKey>, isRefused: boolean) => void
  readonly onProgress: (phase: 'applying' | 'pruning', key: ObjectKey, end: ApplyEnd | undefined) => void
}

/** `refused`: nothing was done, the last commit holds. */
export type RoundResult =
  | {
      readonly is: 'refused'
      readonly problems: readonly ManifestProblem[]
      /** until other sources want less */
      readonly isTooMuch: boolean
    }
  | { readonly is: 'paused' }
  | Rehearsed
  | {
      readonly is: 'done'
      readonly ends: readonly RoundEnd[]
      readonly entries: ReadonlyMap<string, InventoryEntry>
      readonly pruned: readonly ObjectKey[]
      /** what waits for approval; empty: nothing */
      readonly plan: string
      readonly planned: readonly InventoryEntry[]
      readonly orphans: readonly ObjectKey[]
      /** something may have to go, and it is not known yet whether another source wants it */
      readonly isPruneHeld: boolean
      /** what users are to know of how the commit was rendered */
      readonly notes?: readonly string[]
    }

export type RoundDone = Extract<RoundResult, { is: 'done' }>

/** Nothing of it is to be tried again: what waits for approval is told when it comes. */
export function isSettled({ entries, isPruneHeld }: RoundDone): boolean {
  return !isPruneHeld && [...entries.values()].every(({ state }) => state !== 'failed')
}

/**
 * Brings one commit to the cluster. Killed anywhere, the next one finds in the inventory all that this one may have
 * made.
 *
 * @throws the connection's error, or the signal's reason: the commit is to be tried again
 */
export async function runRound(
  components: RoundComponents,
  input: RoundInput,
  options: SourceOptions,
  signal: AbortSignal,
): Promise<RoundResult> {
  const wanted = await readWanted(components, input.files, options, signal)
  const isTooMuch = !('problems' in wanted) && !components.others.hasRoom(keyed(wanted.manifests))
  if ('problems' in wanted || isTooMuch) {
    input.onWanted(keyed((await components.inventory.load(signal)).values()), true)
    return { is: 'refused', problems: 'problems' in wanted ? wanted.problems : [tooMuch(wanted)], isTooMuch }
  }
  input.onWanted(keyed(wanted.manifests), false) // other sources wait for it
  if (input.isPaused) return { is: 'paused' }
  if (options.dryRunStrategy !== 'none') return await rehearse(components, input.commit, options, wanted, signal)
  return await new Round(components, input, options, wanted, signal).run()
}

function tooMuch({ manifests }: Wanted): ManifestProblem {
  const text = `all sources of the agent want more than ${maxObjects} objects: with the ${manifests.length} of this one`
  return { file: '', line: 0, text }
}

/** Of what is known of the commit, from the inventory to the inventory. */
export class Round {
  readonly #components: RoundComponents
  readonly #input: RoundInput
  readonly #options: SourceOptions
  readonly #wanted: Wanted
  readonly #signal: AbortSignal
  readonly #entries: RoundEntries
  readonly #pruned: ObjectKey[] = []
  /** the configuration chooses other manifests of a commit than it did when the source was last pruned */
  #isChosenAnew = false
  /** something that has left is not decided upon, or has not gone though it may */
  #isOpen = false
  #approvalUsed: Promise<void> | undefined

  constructor(
    components: RoundComponents,
    input: RoundInput,
    options: SourceOptions,
    wanted: Wanted,
    signal: AbortSignal,
  ) {
    this.#components = components
    this.#input = input
    this.#options = options
    this.#wanted = wanted
    this.#signal = signal
    this.#entries = new RoundEntries({ inventory: components.inventory, graph: wanted.graph })
  }

  async run(): Promise<RoundDone> {
    const { inventory, lane, inventoryOf } = this.#components
    const own = await inventory.load(this.#signal)
    const before = inventory.options
    const source = { lane, inventoryOf, adopted: inventory.adopted }
    const { entries: known, adopted } = await knownEntries(own, source, this.#options, this.#signal)
    this.#isChosenAnew = before !== undefined && chosenBy(before) !== chosenBy(this.#options)
    this.#entries.begin(known, this.#wanted.manifests)
    const live = await this.#readLive()
    await this.#entries.save(this.#signal) // before anything is made
    const kept = this.#isChosenAnew && before ? withChoiceOf(before, this.#options) : this.#options
    await inventory.saveOptions(kept, adopted, this.#signal)
    try {
      const ends = await this.#applyApproved(known, live)
      const plan = await this.#prune(known, live, ends)
      const result = this.#result(ends, plan, live)
      if (plan && result.plan === '' && this.#isChosenAnew && !this.#isOpen) {
        await inventory.saveOptions(this.#options, adopted, this.#signal)
      }
      return result
    } finally {
      if (!this.#signal.aborted) await this.#entries.save(this.#signal)
    }
  }

  async #readLive(): Promise<LiveObjects> {
    const { lane, kinds: shared } = this.#components
    const entries = [...this.#entries.all.values()]
    // a kind that is not known is not taken for one that is gone, before somebody was asked
    const isKnown = entries.every(({ key }) => this.#wanted.kinds.find(key))
    const kinds = isKnown ? this.#wanted.kinds : await shared.read(this.#signal)
    return await readLiveObjects(entries, { lane, kinds }, this.#options, this.#signal)
  }

  /** Once more, with what may be made again, if somebody has approved just that. */
  async #applyApproved(known: ReadonlyMap<string, InventoryEntry>, live: LiveObjects): Promise<readonly RoundEnd[]> {
    const ends = await this.#apply(known, live)
    const { digest, uids } = this.#replacements(ends)
    if (digest === '' || digest !== this.#input.approved) return ends
    await this.#useApproval()
    return await this.#apply(new Map(this.#entries.all), await this.#readLive(), uids)
  }

  #replacements(ends: readonly RoundEnd[]): ReplacementPlan {
    return replacementPlan(ends, { id: this.#options.id, commit: this.#input.commit })
  }

  async #apply(
    known: ReadonlyMap<string, InventoryEntry>,
    live: LiveObjects,
    approved: ReadonlySet<string> = new Set(),
  ): Promise<readonly RoundEnd[]> {
    const { lane, control, waits, clock, kinds: shared, others } = this.#components
    const { manifests, graph, kinds } = this.#wanted
    const applier = new Applier({ lane, isHandedOver: others.isHandedOver }, this.#options)
    const pruner = new Pruner({ lane, waits, clock, kinds }, this.#options)
    const { reconcileTimeoutMs: timeoutMs, id } = this.#options
    const signal = this.#signal
    const run = new ApplyRun(
      {
        applier,
        replacement: new Replacement({ lane, applier, pruner, approved }, this.#options),
        gate: new HealthGate({ waits, lane: control, clock }, { timeoutMs }),
        lane,
        kindsWith: (key, version, isDefined) => shared.with(key, version, isDefined, signal),
        onEnd: (key, end) => this.#input.onProgress('applying', key, end),
        remember: (manifest, end) => this.#entries.remember(manifest, end, signal),
      },
      { id, manifests, graph, kinds, entries: known, live: live.objects, superseded: this.#input.superseded },
      signal,
    )
    const ends = await run.run()
    return manifests.map((manifest) => {
      const end = ends.get(keyText(manifest.key)) ?? { is: 'left' as const }
      this.#entries.keep(manifest, end)
      return { manifest, end }
    })
  }

  /** @returns undefined: nothing may be pruned now */
  async #prune(
    known: ReadonlyMap<string, InventoryEntry>,
    live: LiveObjects,
    ends: readonly RoundEnd[],
  ): Promise<PrunePlan | undefined> {
    const wanted = new Set(ends.map(({ manifest }) => keyText(manifest.key)))
    const left = [...known.values()].filter(({ key }) => !wanted.has(keyText(key)))
    const needed = neededGone(ends)
    if (needed === undefined) return undefined
    const { others } = this.#components
    const [entries, later] = parted(left, ({ key }) => needed.length === 0 || needed.some((isNeeded) => isNeeded(key)))
    const input: PruneInput = {
      commit: this.#input.commit,
      entries,
      inventorySize: known.size,
      wantedSize: wanted.size,
      isChosenAnew: this.#isChosenAnew,
      isRemoval: this.#input.isRemoval ?? false,
      staying: [...[...ends.map(({ manifest }) => manifest), ...later].map(({ key }) => key), ...others.wanted()],
      plural: (key) => this.#wanted.kinds.find(key)?.plural,
      live: live.objects,
      appliedUids: new Set(ends.flatMap(({ end }) => ('live' in end && end.live ? [end.live.uid] : []))),
      wantedFree: needed.length === 0 ? new Set() : new Set(entries.map(({ key }) => keyText(key))),
      isSettling: this.#input.isSettling ?? false,
      heir: others.heir,
      held: (key) => others.mayWant(key, this.#input.commit),
    }
    const plan = prunePlan(input, this.#options)
    await this.#follow(plan, entries)
    this.#isOpen = plan.isHeld || later.length > 0 || this.#input.superseded.aborted || isUndecided(plan)
    return plan
  }

  /** Before anything goes by it; once. */
  #useApproval(): Promise<void> {
    this.#approvalUsed ??= this.#input.useApproval(this.#signal)
    return this.#approvalUsed
  }

  async #follow({ decisions, digest, isHeld }: PrunePlan, entries: readonly InventoryEntry[]): Promise<void> {
    const { lane, waits, clock, kinds } = this.#components
    const { approved } = this.#input
    const isApproved = digest !== '' && digest === approved
    // while others have not spoken, or calls may be on their way, it may be of a plan that is still to come
    const mayFitLater = isHeld || this.#input.isSettling
    if (isApproved || (approved !== '' && !mayFitLater)) await this.#useApproval()
    const prunables = entries.flatMap((entry) => {
      const decision = decisions.get(keyText(entry.key))
      this.#entries.decide(entry, decision, isApproved)
      const goes = decision?.is === 'delete' || (decision?.is === 'confirm' && isApproved)
      return goes ? [{ entry, live: decision.live }] : []
    })
    if (prunables.length === 0 || this.#input.superseded.aborted) return
    const pruner = new Pruner({ lane, waits, clock, kinds: await kinds.current(this.#signal) }, this.#options)
    const onEnd = (entry: InventoryEntry, survives: string | undefined) => {
      this.#entries.pruned(entry, survives)
      if (survives === undefined) this.#pruned.push(entry.key)
      this.#input.onProgress('pruning', entry.key, undefined)
    }
    await pruner.prune(prunables, onEnd, this.#input.superseded, this.#signal)
  }

  #result(ends: readonly RoundEnd[], plan: PrunePlan | undefined, { orphans }: LiveObjects): RoundDone {
    const { all: entries } = this.#entries
    const planned = [...entries].flatMap(([text, entry]) =>
      plan?.decisions.get(text)?.is === 'confirm' && entry.state === 'waits' ? [entry] : [],
    )
    const replaced = this.#replacements(ends) // where something has failed, nothing is pruned: one plan at a time
    const waiting = planned.length > 0 && plan ? plan.digest : replaced.digest
    for (const { manifest } of replaced.ends) planned.push(entries.get(keyText(manifest.key)) as InventoryEntry)
    return {
      is: 'done',
      ends,
      entries,
      pruned: this.#pruned,
      plan: waiting,
      planned,
      orphans,
      isPruneHeld: plan?.isHeld ?? false,
      notes: this.#wanted.notes ?? [],
    }
  }
}

/** Something that has left could not be decided upon, or may be on its way. */
function isUndecided({ decisions }: PrunePlan): boolean {
  const isOpen = (state: EntryState) => state === 'failed' || state === 'planned'
  return [...decisions.values()].some((decision) => decision.is === 'keep' && isOpen(decision.state))
}

function keyed(all: Iterable<{ readonly key: ObjectKey }>): ReadonlyMap<string, ObjectKey> {
  return new Map(Array.from(all, ({ key }) => [keyText(key), key]))
}

function parted<T>(all: readonly T[], isFirst: (one: T) => boolean): readonly [T[], T[]] {
  return [all.filter(isFirst), all.filter((one) => !isFirst(one))]
}
