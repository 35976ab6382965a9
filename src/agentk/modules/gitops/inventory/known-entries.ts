import { keyText, type ObjectKey } from '../../../../kubernetes/key.ts'
import { maxIdLength, type SourceOptions } from '../source-options.ts'
import { isForbidden, type JsonApi } from './config-maps.ts'
import type { InventoryEntry } from './entry.ts'
import type { Inventory } from './inventory.ts'
import { stockInventory } from './stock-inventory.ts'

/** Ids of sources, also those of the stock agent; what else is adopted are managers. */
const idForm = /^\d+-\d+(?:-[a-z0-9-]+)?$/

/** All that a source is known to have made, and what it has taken over. */
export interface KnownEntries {
  /** by `keyText` */
  readonly entries: ReadonlyMap<string, InventoryEntry>
  /** inventories whose entries are among them */
  readonly adopted: readonly string[]
}

/**
 * A source's own entries, with those of the inventories that it adopts. Each of these is taken in once: what it holds is
 * the source's own from then on. A project that the stock agent has synced goes on with that agent's inventory.
 *
 * @throws KasError UNREACHABLE; Error if a shard cannot be read
 */
export async function knownEntries(
  own: ReadonlyMap<string, InventoryEntry>,
  components: {
    /** acts as the source's account: stock inventories stand where tenants write */
    readonly lane: JsonApi
    /** undefined: not now */
    readonly inventoryOf: (id: string) => Pick<Inventory, 'load'> | undefined
    /** inventories that were taken in before */
    readonly adopted: readonly string[]
  },
  options: Pick<SourceOptions, 'id' | 'name' | 'adopt' | 'defaultNamespace'>,
  signal: AbortSignal,
): Promise<KnownEntries> {
  const { id, name, adopt, defaultNamespace: namespace } = options
  const entries = new Map(own)
  const adopted = new Set(components.adopted)
  const take = (others: Iterable<InventoryEntry>) => {
    for (const entry of others) {
      const text = keyText(entry.key)
      if (!entries.get(text)?.uid) entries.set(text, entry) // what was only planned here was made there
    }
  }
  if (own.size === 0 && name === undefined) {
    take((await ofStock(components.lane, { namespace, id }, signal)) ?? [])
  }
  for (const other of adopt) {
    if (other === id || adopted.has(other) || other.length > maxIdLength || !idForm.test(other)) continue
    const inventory = components.inventoryOf(other)
    if (!inventory) continue
    const found = await inventory.load(signal)
    const others =
      found.size > 0 ? [...found.values()] : await ofStock(components.lane, { namespace, id: other }, signal)
    if (!others) continue
    take(others)
    adopted.add(other)
  }
  return { entries, adopted: [...adopted] }
}

/** @returns undefined: it may not be read. Nothing that it holds is known then, nor pruned */
async function ofStock(
  lane: JsonApi,
  of: { readonly namespace: string; readonly id: string },
  signal: AbortSignal,
): Promise<InventoryEntry[] | undefined> {
  try {
    return (await stockInventory(lane, of, signal)).map(unverifiedEntry)
  } catch (error) {
    if (isForbidden(error)) return undefined
    throw error
  }
}

function unverifiedEntry(key: ObjectKey): InventoryEntry {
  return { key, version: '', uid: '', wave: 0, digest: '', fields: '', state: 'planned', reason: '' }
}
