import { keyText, type ObjectKey } from '../../../../kubernetes/key.ts'
import { isPathSegment } from '../../../../lib/path-segment.ts'
import { maxObjects } from '../../../../proto/gitops/limits.ts'
import type { InventoryEntry } from '../round.ts'
import { isSourceId, type SourceOptions } from '../source-options.ts'
import { ConfigMaps, isForbidden, type JsonApi } from './config-maps.ts'
import type { Inventory } from './inventory.ts'

/** Entries that a source has made, as far as known, and those that it has taken over. */
export interface KnownEntries {
  /** by `keyText` */
  readonly entries: ReadonlyMap<string, InventoryEntry>
  /** ids of inventories whose entries are included */
  readonly adopted: readonly string[]
}

/**
 * Returns a source's own entries, with those of the inventories that it adopts. Each inventory is taken over once: its
 * objects are the source's own from then on. A project that the stock agent has synced continues that agent's
 * inventory.
 *
 * @throws KasError UNREACHABLE; Error if a shard cannot be read
 */
export async function knownEntries(
  own: ReadonlyMap<string, InventoryEntry>,
  components: {
    /** acts as the source's account: stock inventories are in namespaces where tenants write */
    readonly lane: JsonApi
    /** undefined: it cannot be adopted now */
    readonly inventoryOf: (id: string) => Pick<Inventory, 'load'> | undefined
    /** ids of inventories that were taken over before */
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
      if (!entries.get(text)?.uid) entries.set(text, entry) // an entry that is only planned here was made there
    }
  }
  if (own.size === 0 && name === undefined) {
    take((await ofStock(components.lane, { namespace, id }, signal)) ?? [])
  }
  for (const other of adopt) {
    if (other === id || adopted.has(other) || !isSourceId(other)) continue
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

/** @returns undefined: the inventory may not be read, so that none of its objects is known or pruned */
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

/** Label of cli-utils with the id of the inventory. */
const inventoryIdLabel = 'cli-utils.sigs.k8s.io/inventory-id'

/**
 * Reads what the stock agent (13.8 to 17) has made of a project, to take over its objects once. That agent keeps one
 * ConfigMap: others with its label are not read, nor more than an agent's limit of objects.
 *
 * @param of.namespace - the source's `default_namespace`
 * @param of.id - `<agent id>-<project id>`, also the value of its objects' owner annotation
 * @throws KasError UNREACHABLE with the server's status
 */
export async function stockInventory(
  api: JsonApi,
  of: { readonly namespace: string; readonly id: string },
  signal: AbortSignal,
): Promise<ObjectKey[]> {
  const map = await new ConfigMaps(api, of.namespace).first(`${inventoryIdLabel}=${of.id}`, signal)
  const keys = Object.keys(map?.data ?? {}).slice(0, maxObjects)
  return keys.flatMap((text) => stockKey(text) ?? [])
}

/**
 * Reads `<namespace>_<name>_<group>_<kind>`; a `:` of the name is written `__`.
 *
 * @returns undefined: the text has another form
 */
export function stockKey(text: string): ObjectKey | undefined {
  const [, namespace = '', escaped = '', group = '', kind = ''] = /^([^_]*)_(.+)_([^_]*)_([^_]+)$/.exec(text) ?? []
  const name = escaped.replaceAll('__', ':')
  if (name === '' || name.includes('_') || ![namespace, name].every(isPathSegment)) return undefined
  return { group, kind, namespace, name }
}
