import { keyText, type ObjectKey } from '../../../../kubernetes/key.ts'
import { maxObjects } from '../../../../proto/gitops/limits.ts'
import type { InventoryEntry } from '../round.ts'
import { isSourceId, type SourceOptions } from '../source-options.ts'
import { ConfigMaps, isForbidden, type JsonApi } from './config-maps.ts'
import type { Inventory } from './inventory.ts'

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

/** Of cli-utils: names the inventory's id. */
const inventoryIdLabel = 'cli-utils.sigs.k8s.io/inventory-id'

/**
 * What the stock agent (13.8 to 17) has made of a project: to be read once, when its objects are taken over. It keeps
 * one ConfigMap; others with its label are not read, nor more than an agent's objects of it.
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
 * `<namespace>_<name>_<group>_<kind>`, a `:` of the name written `__`.
 *
 * @returns undefined: it is none
 */
export function stockKey(text: string): ObjectKey | undefined {
  const [, namespace = '', escaped = '', group = '', kind = ''] = /^([^_]*)_(.+)_([^_]*)_([^_]+)$/.exec(text) ?? []
  const name = escaped.replaceAll('__', ':')
  return name === '' || name.includes('_') ? undefined : { group, kind, namespace, name }
}
