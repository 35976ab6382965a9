import { keyText } from '../../../../kubernetes/key.ts'
import type { Clock } from '../../../../lib/clock.ts'
import type { LiveObject } from '../live/live-object.ts'
import type { Manifest } from '../manifests/manifest.ts'
import type { ApplyEnd, Build, EntryState, InventoryEntry, WaveGraph } from '../round.ts'
import type { SourceOptions } from '../source-options.ts'
import type { JsonApi } from './config-maps.ts'
import { keptCorrections, recordCorrection } from './corrections.ts'
import type { Inventory } from './inventory.ts'
import { knownEntries } from './known-entries.ts'

export interface SourceInventoryComponents {
  readonly own: Pick<Inventory, 'load' | 'save' | 'options' | 'commit' | 'adopted' | 'saveOptions' | 'remove'>
  /** inventory to adopt; undefined: a source of this agent has that id, and releases its objects itself */
  readonly of: (id: string) => Pick<Inventory, 'load'> | undefined
  /** acts as the source's account */
  readonly lane: JsonApi
  /** ms since the epoch */
  readonly clock: Pick<Clock, 'now'>
}

/** Facts of a commit beside its files. */
export interface FoundInCommit {
  /** links that are not read, each with the reason */
  readonly leftOut: readonly string[]
  /** project's default branch, if the source follows it; absent, or empty: not known */
  readonly branch?: string
}

/**
 * Objects that a source may have made, as a round finds and leaves them. They are saved before anything is made, so
 * that a round that is killed at any point forgets nothing.
 */
export class SourceInventory {
  /** by `keyText`, as loaded */
  readonly known: ReadonlyMap<string, InventoryEntry>
  /** reason why other manifests are chosen than at the last prune; undefined: none */
  readonly chosenAnew: string | undefined
  readonly #own: SourceInventoryComponents['own']
  readonly #clock: Pick<Clock, 'now'>
  readonly #options: SourceOptions
  /** options kept beside the entries; undefined: none */
  readonly #before: SourceOptions | undefined
  /** ids of inventories whose entries are included */
  readonly #adopted: readonly string[]
  /** by `keyText` */
  readonly #entries: Map<string, InventoryEntry>
  #graph: Pick<WaveGraph, 'wave'> = { wave: () => 0 }
  /** commit that this round has applied completely */
  #applied: string | undefined
  #saved = Promise.resolve()

  /** @throws KasError UNREACHABLE; Error if a shard cannot be read */
  static async load(
    { own, of, lane, clock }: SourceInventoryComponents,
    options: SourceOptions,
    signal: AbortSignal,
    { leftOut, branch = '' }: FoundInCommit = { leftOut: [] },
  ): Promise<SourceInventory> {
    const entries = await own.load(signal)
    const others = { lane, inventoryOf: of, adopted: own.adopted }
    const defaultBranch = branch === '' ? own.options?.defaultBranch : branch
    const followed = options.ref === undefined && defaultBranch !== undefined && { defaultBranch }
    const kept = { ...options, ...(leftOut.length > 0 && { leftOut }), ...followed }
    return new SourceInventory({ own, clock }, kept, await knownEntries(entries, others, options, signal))
  }

  private constructor(
    { own, clock }: Pick<SourceInventoryComponents, 'own' | 'clock'>,
    options: SourceOptions,
    { entries, adopted }: Awaited<ReturnType<typeof knownEntries>>,
  ) {
    this.known = entries
    this.#own = own
    this.#clock = clock
    this.#options = options
    this.#before = own.options
    this.#adopted = adopted
    this.#entries = new Map(entries)
    this.chosenAnew = this.#before && choiceAnew(this.#before, options)
  }

  /** By `keyText`. */
  get entries(): ReadonlyMap<string, InventoryEntry> {
    return this.#entries
  }

  /** Adds the objects that a commit wants. They may be made once `begin` has saved them. */
  addWanted({ manifests, graph }: Build): void {
    this.#graph = graph
    for (const { key, version } of manifests) {
      const text = keyText(key)
      if (this.#entries.has(text)) continue
      const rest = { uid: '', digest: '', fields: '', state: 'planned' as const, reason: '' }
      this.#entries.set(text, { key, version, wave: graph.wave(text), ...rest })
    }
  }

  /** Saves entries and options before anything is made. @throws as `Inventory.save` */
  async begin(signal: AbortSignal): Promise<void> {
    await this.save(signal)
    await this.#own.saveOptions(this.#kept, this.#adopted, signal)
  }

  /** Options to keep: the earlier choice, until its objects are decided upon. */
  get #kept(): SourceOptions {
    return this.chosenAnew && this.#before ? withChoiceOf(this.#before, this.#options) : this.#options
  }

  /** Saves one after another: an inventory has one writer. @throws as `Inventory.save` */
  save(signal: AbortSignal): Promise<void> {
    this.#saved = this.#saved.then(() => this.#own.save(this.#entries.values(), signal, this.#applied))
    return this.#saved
  }

  /**
   * Keeps the options after a round. The commit is kept by the next `save`.
   *
   * @param of.applied - commit that was applied completely; undefined: part of it is missing
   * @param of.isDecided - the objects of the earlier choice have left the cluster, or were decided upon
   * @throws as `Inventory.save`
   */
  async ended(of: { applied: string | undefined; isDecided: boolean }, signal: AbortSignal): Promise<void> {
    this.#applied = of.applied
    if (of.isDecided) await this.#own.saveOptions(this.#options, this.#adopted, signal)
  }

  applied({ key, version, digest }: Manifest, end: ApplyEnd): void {
    const text = keyText(key)
    const entry = this.#entries.get(text) as InventoryEntry
    const wave = this.#graph.wave(text)
    if (end.kind === 'applied') {
      const drift = end.corrected && recordCorrection(entry.drift, end.corrected, this.#clock.now())
      const reference = referenceOf(end.live)
      const { leftOut, runsOnce } = end
      const more = { ...(drift && { drift }), ...(leftOut && { leftOut }), ...(runsOnce && { runsOnce }) }
      this.#entries.set(text, { key, version, wave, digest, ...reference, ...more, state: 'applied', reason: '' })
    } else if (end.kind === 'unchanged') {
      const { drift: before, ...others } = entry
      const drift = before && keptCorrections(before)
      // an older agentk has recorded neither time nor generation
      const isNew = end.isReferenceNew || (end.live?.digest === digest && entry.generation === undefined)
      const reference = isNew && end.live ? referenceOf(end.live) : {}
      this.#entries.set(text, { ...others, ...reference, wave, ...(drift && { drift }), state: 'applied', reason: '' })
    } else if (end.kind === 'drifted') {
      const { since, isDeleted } = end.finding
      const { isDeleted: _, ...before } = entry.drift ?? {}
      const drift = { ...before, since, ...(isDeleted && { isDeleted }) }
      this.#entries.set(text, { ...entry, wave, ...(end.finding.kind === 'drifted' && { drift }) })
    } else if (end.kind === 'failed') {
      const state: EntryState = entry.uid === '' ? 'planned' : 'failed'
      this.#entries.set(text, { ...entry, wave, state, reason: end.problem.text })
    }
  }

  /** Removes the entry of an object that is deleted, or another's. */
  forget({ key }: InventoryEntry): void {
    this.#entries.delete(keyText(key))
  }

  /** Records an object that has left the commit and stays. */
  stays(entry: InventoryEntry, state: EntryState, reason: string): void {
    this.#entries.set(keyText(entry.key), { ...entry, state, reason })
  }

  /** @param survives - reason for which it still exists; undefined: it is deleted */
  pruned(entry: InventoryEntry, survives: string | undefined): void {
    const text = keyText(entry.key)
    if (survives === undefined) this.#entries.delete(text)
    else this.#entries.set(text, { ...entry, state: 'failed', reason: survives })
  }
}

/** Metadata after an apply, with which later ones are compared. */
function referenceOf({ uid, fields, fieldsTime: time, generation, ignored }: LiveObject) {
  return { uid, fields, time, generation, ...(ignored !== undefined && { ignored }) }
}

/**
 * Returns why other manifests are chosen. Links that are no longer read may have been files, so that their objects may
 * still be in Git.
 */
function choiceAnew(before: SourceOptions, options: SourceOptions): string | undefined {
  const branches = [branchOf(before), branchOf(options)]
  if (!before.ref && !options.ref && before.defaultBranch && branches[0] !== branches[1]) {
    return `the default branch of the project is ${branches[1]} now, and was ${branches[0]}`
  }
  const isOtherBranch = branches[0] !== branches[1] && Boolean(before.ref ?? options.ref)
  const isLinkedAnew = (options.leftOut ?? []).some((text) => !before.leftOut?.includes(text))
  if (!isOtherBranch && !isLinkedAnew && chosenBy(before) === chosenBy(options)) return undefined
  return 'the configuration chooses other manifests than before, or links are not read any more'
}

/** Returns the branch that is followed; null: none. Another tag is a deployment. */
function branchOf({ ref, defaultBranch }: SourceOptions): string | null {
  return ref?.tag || ref?.commit ? null : (ref?.branch ?? defaultBranch ?? '')
}

/** Returns, as text, the options that choose manifests of a branch and their namespace, and that prune. */
function chosenBy({ paths, kustomize, helm, defaultNamespace, prune }: SourceOptions): string {
  return JSON.stringify([paths, kustomize, helm, defaultNamespace, prune])
}

/** Returns `options` with the earlier values of the fields that `choiceAnew` compares. */
function withChoiceOf(before: SourceOptions, options: SourceOptions): SourceOptions {
  const {
    ref: _ref,
    kustomize: _kustomize,
    helm: _helm,
    leftOut: _leftOut,
    defaultBranch: _branch,
    ...others
  } = options
  const { ref, paths, kustomize, helm, leftOut, defaultBranch, defaultNamespace, prune } = before
  const optional = {
    ...(ref && { ref }),
    ...(kustomize && { kustomize }),
    ...(helm && { helm }),
    ...(leftOut && { leftOut }),
    ...(defaultBranch && { defaultBranch }),
  }
  return { ...others, ...optional, paths, defaultNamespace, prune }
}
