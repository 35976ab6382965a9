import { keyText } from '../../../../kubernetes/key.ts'
import type { Manifest } from '../manifests/manifest.ts'
import type { ApplyEnd, Build, EntryState, InventoryEntry, WaveGraph } from '../round.ts'
import type { SourceOptions } from '../source-options.ts'
import type { JsonApi } from './config-maps.ts'
import type { Inventory } from './inventory.ts'
import { knownEntries } from './known-entries.ts'

export interface SourceInventoryComponents {
  readonly own: Pick<Inventory, 'load' | 'save' | 'options' | 'commit' | 'adopted' | 'saveOptions' | 'remove'>
  /** one that is adopted; undefined: a source of this agent goes by that id, and lets go by itself */
  readonly of: (id: string) => Pick<Inventory, 'load'> | undefined
  /** acts as the source's account */
  readonly lane: JsonApi
}

/** A round finds this in its commit beside files. */
export interface FoundInCommit {
  /** links that are not read, each with the reason */
  readonly leftOut: readonly string[]
  /** the default branch of the project, where the source follows that; absent, or empty: not known */
  readonly branch?: string
}

/**
 * All that a source may have made, as a round finds it and is to leave it: saved before anything is made, so that a round
 * which is killed anywhere forgets nothing.
 */
export class SourceInventory {
  /** by `keyText`, as it was found */
  readonly known: ReadonlyMap<string, InventoryEntry>
  /** what chooses other manifests than when the source was last pruned; undefined: nothing does */
  readonly chosenAnew: string | undefined
  readonly #own: SourceInventoryComponents['own']
  readonly #options: SourceOptions
  /** as they are kept beside the entries; undefined: none are */
  readonly #before: SourceOptions | undefined
  /** inventories whose entries are among its own */
  readonly #adopted: readonly string[]
  /** by `keyText` */
  readonly #entries: Map<string, InventoryEntry>
  #graph: Pick<WaveGraph, 'wave'> = { wave: () => 0 }
  #saved = Promise.resolve()

  /** @throws KasError UNREACHABLE; Error if a shard cannot be read */
  static async load(
    { own, of, lane }: SourceInventoryComponents,
    options: SourceOptions,
    signal: AbortSignal,
    { leftOut, branch = '' }: FoundInCommit = { leftOut: [] },
  ): Promise<SourceInventory> {
    const entries = await own.load(signal)
    const others = { lane, inventoryOf: of, adopted: own.adopted }
    const defaultBranch = branch === '' ? own.options?.defaultBranch : branch
    const followed = options.ref === undefined && defaultBranch !== undefined && { defaultBranch }
    const kept = { ...options, ...(leftOut.length > 0 && { leftOut }), ...followed }
    return new SourceInventory(own, kept, await knownEntries(entries, others, options, signal))
  }

  private constructor(
    own: SourceInventoryComponents['own'],
    options: SourceOptions,
    { entries, adopted }: Awaited<ReturnType<typeof knownEntries>>,
  ) {
    this.known = entries
    this.#own = own
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

  /** With what a commit wants: it may be made once `begin` has saved that. */
  addWanted({ manifests, graph }: Build): void {
    this.#graph = graph
    for (const { key, version } of manifests) {
      const text = keyText(key)
      if (this.#entries.has(text)) continue
      const rest = { uid: '', digest: '', fields: '', state: 'planned' as const, reason: '' }
      this.#entries.set(text, { key, version, wave: graph.wave(text), ...rest })
    }
  }

  /** Before anything is made. @throws as `Inventory.save` */
  async begin(signal: AbortSignal): Promise<void> {
    await this.save(signal)
    await this.#own.saveOptions(this.#kept, this.#adopted, signal)
  }

  /** Until what was chosen before is decided upon, that is kept. */
  get #kept(): SourceOptions {
    return this.chosenAnew && this.#before ? withChoiceOf(this.#before, this.#options) : this.#options
  }

  /** One after another: an inventory has one writer. @throws as `Inventory.save` */
  save(signal: AbortSignal): Promise<void> {
    this.#saved = this.#saved.then(() => this.#own.save(this.#entries.values(), signal))
    return this.#saved
  }

  /**
   * @param of.applied - the commit of which all was applied; undefined: part of one is missing
   * @param of.isDecided - what the configuration chose before has left the cluster, or was decided upon
   * @throws as `Inventory.save`
   */
  async ended(of: { applied: string | undefined; isDecided: boolean }, signal: AbortSignal): Promise<void> {
    const { applied, isDecided } = of
    if (isDecided) await this.#own.saveOptions(this.#options, this.#adopted, signal, applied)
    else if (applied !== undefined) await this.#own.saveOptions(this.#kept, this.#adopted, signal, applied)
  }

  applied({ key, version, digest }: Manifest, end: ApplyEnd): void {
    const text = keyText(key)
    const entry = this.#entries.get(text) as InventoryEntry
    const wave = this.#graph.wave(text)
    if (end.kind === 'applied') {
      const { uid, fields } = end.live
      this.#entries.set(text, { key, version, uid, wave, digest, fields, state: 'applied', reason: '' })
    } else if (end.kind === 'unchanged') this.#entries.set(text, { ...entry, wave, state: 'applied', reason: '' })
    else if (end.kind === 'failed') {
      const state: EntryState = entry.uid === '' ? 'planned' : 'failed'
      this.#entries.set(text, { ...entry, wave, state, reason: end.problem.text })
    }
  }

  /** It is gone, or another's. */
  forget({ key }: InventoryEntry): void {
    this.#entries.delete(keyText(key))
  }

  /** It has left the commit and stays. */
  stays(entry: InventoryEntry, state: EntryState, reason: string): void {
    this.#entries.set(keyText(entry.key), { ...entry, state, reason })
  }

  /** @param survives - why it is there still; undefined: it is gone */
  pruned(entry: InventoryEntry, survives: string | undefined): void {
    const text = keyText(entry.key)
    if (survives === undefined) this.#entries.delete(text)
    else this.#entries.set(text, { ...entry, state: 'failed', reason: survives })
  }
}

/** Links that are not read any more may have been files before: what stood there has not left Git, perhaps. */
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

/** Null: none. Another tag is a deployment. */
function branchOf({ ref, defaultBranch }: SourceOptions): string | null {
  return ref?.tag || ref?.commit ? null : (ref?.branch ?? defaultBranch ?? '')
}

/** The options that choose what of a branch becomes manifests, and where; and whether what leaves goes. */
function chosenBy({ paths, kustomize, helm, defaultNamespace, prune }: SourceOptions): string {
  return JSON.stringify([paths, kustomize, helm, defaultNamespace, prune])
}

/** `options`, but for what `choiceAnew` compares. */
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
