import type { ApplyEnd } from './apply/apply-run.ts'
import type { PruneDecision } from './apply/prune-plan.ts'
import type { WaveGraph } from './apply/wave-graph.ts'
import type { EntryState, InventoryEntry } from './inventory/entry.ts'
import type { Inventory } from './inventory/inventory.ts'
import type { Manifest } from './manifests/manifest.ts'
import { keyText } from './manifests/object-key.ts'

export interface RoundEntriesComponents {
  readonly inventory: Pick<Inventory, 'save'>
  readonly graph: Pick<WaveGraph, 'wave'>
}

/** The inventory as a round is to leave it, kept ahead of what the round does. */
export class RoundEntries {
  readonly #components: RoundEntriesComponents
  /** by `keyText` */
  readonly #entries = new Map<string, InventoryEntry>()
  #remembered = Promise.resolve()

  constructor(components: RoundEntriesComponents) {
    this.#components = components
  }

  /** By `keyText`. */
  get all(): ReadonlyMap<string, InventoryEntry> {
    return this.#entries
  }

  /** What is known, and what may be made from now on. */
  begin(known: ReadonlyMap<string, InventoryEntry>, manifests: readonly Manifest[]): void {
    for (const [text, entry] of known) this.#entries.set(text, entry)
    for (const { key, version } of manifests) {
      const text = keyText(key)
      if (this.#entries.has(text)) continue
      const rest = { uid: '', digest: '', fields: '', state: 'planned' as const, reason: '' }
      this.#entries.set(text, { key, version, wave: this.#components.graph.wave(text), ...rest })
    }
  }

  /** @throws as `Inventory.save` */
  save(signal: AbortSignal): Promise<void> {
    return this.#components.inventory.save(this.#entries.values(), signal)
  }

  /** Saved at once; one after another: an inventory has one writer. @throws as `Inventory.save` */
  remember(manifest: Manifest, end: ApplyEnd, signal: AbortSignal): Promise<void> {
    this.keep(manifest, end)
    this.#remembered = this.#remembered.then(() => this.save(signal))
    return this.#remembered
  }

  keep({ key, version, digest }: Manifest, end: ApplyEnd): void {
    const text = keyText(key)
    const entry = this.#entries.get(text) as InventoryEntry
    const wave = this.#components.graph.wave(text)
    if (end.is === 'applied') {
      const { uid, fields } = end.live
      this.#entries.set(text, { key, version, uid, wave, digest, fields, state: 'applied', reason: '' })
    } else if (end.is === 'unchanged') this.#entries.set(text, { ...entry, wave, state: 'applied', reason: '' })
    else if (end.is === 'failed') {
      const state: EntryState = entry.uid === '' ? 'planned' : 'failed'
      this.#entries.set(text, { ...entry, wave, state, reason: end.problem.text })
    }
  }

  /** What a plan makes of one that has left, but for what goes: `pruned` tells of that. */
  decide(entry: InventoryEntry, decision: PruneDecision | undefined, isApproved: boolean): void {
    const text = keyText(entry.key)
    if (decision?.is === 'forget') this.#entries.delete(text)
    if (decision?.is === 'keep') {
      const { state, reason } = decision
      this.#entries.set(text, { ...entry, state, reason })
    }
    if (decision?.is === 'confirm' && !isApproved) {
      this.#entries.set(text, { ...entry, state: 'waits', reason: decision.reason })
    }
  }

  /** @param survives - why it is there still; undefined: it is gone */
  pruned(entry: InventoryEntry, survives: string | undefined): void {
    const text = keyText(entry.key)
    if (survives === undefined) this.#entries.delete(text)
    else this.#entries.set(text, { ...entry, state: 'failed', reason: survives })
  }
}
