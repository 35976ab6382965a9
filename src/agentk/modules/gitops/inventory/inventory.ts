import { errorText } from '../../../../lib/errors.ts'
import { agentLabel, sourceLabel } from '../manifests/annotations.ts'
import type { InventoryEntry } from '../round.ts'
import type { SourceOptions } from '../source-options.ts'
import { type ConfigMap, ConfigMaps, isForbidden, type JsonApi } from './config-maps.ts'
import { readKeptIds, readKeptOptions } from './kept-options.ts'
import { shardsOf, undivided, union } from './shards.ts'

/** Suffix of the ConfigMap with a source's options; no shard has that name. */
const optionsName = 'source'

export interface InventoryOptions {
  /** namespace of agentk */
  readonly namespace: string
  readonly agentId: bigint
  /** id of the source */
  readonly id: string
}

interface Kept {
  /** as read or written last */
  readonly map: ConfigMap
  /** of the ConfigMap */
  readonly name: string
  readonly text: string
  readonly revision: number
  /** last commit that was applied completely when it was written; empty: not known */
  readonly commit: string
}

/**
 * Objects that a source has made, in ConfigMaps `gitops-<id>-<shard>`. Every write fails if somebody else has
 * written since `load`. Only one task at a time may use it.
 */
export class Inventory {
  readonly #maps: ConfigMaps
  readonly #of: InventoryOptions
  #shards: Map<string, Kept> | undefined
  #source: ConfigMap | undefined

  constructor(api: JsonApi, of: InventoryOptions) {
    this.#maps = new ConfigMaps(api, of.namespace)
    this.#of = of
  }

  /** Loads the entries of all shards, by `keyText`. @throws KasError UNREACHABLE; Error if a shard cannot be read */
  async load(signal: AbortSignal): Promise<ReadonlyMap<string, InventoryEntry>> {
    this.#shards = undefined
    const labelled = await this.#maps.list(`${sourceLabel}=${this.#of.id}`, signal)
    // others may write labels, but only agentk uses these names
    const maps = labelled.filter(({ metadata }) => metadata.name.startsWith(this.#nameOf('')))
    this.#source = maps.find(({ metadata }) => metadata.name === this.#nameOf(optionsName))
    const shards = new Map<string, Kept>()
    for (const map of maps) if (map !== this.#source) shards.set(this.#shardOf(map), keptOf(map))
    const entries = union(shards.values())
    this.#shards = shards
    return entries
  }

  /**
   * Writes the shards that differ. A kill at any moment loses no entry that stays: `load` finds it in its old or new
   * state.
   *
   * @param commit - last commit that was applied completely; empty: not known. It takes no write of its own but where no
   * shard differs
   * @throws KasError UNREACHABLE: with `httpStatus` 409 or 404 somebody else wrote. After any error: `load` first
   */
  async save(entries: Iterable<InventoryEntry>, signal: AbortSignal, commit = this.commit): Promise<void> {
    const shards = this.#shards
    if (!shards) throw new Error('an inventory is saved after it has been loaded')
    const isSameCommit = commit === this.commit
    this.#shards = undefined
    const wanted = shardsOf(entries, shards.keys())
    for (const [name, text] of wanted) if (text === '' && name !== undivided) wanted.delete(name)
    const stale = [...shards].filter(([name]) => !wanted.has(name))
    const revision = Math.max(0, ...[...shards.values()].map((kept) => kept.revision)) + 1
    const differ = [...wanted.keys()].filter((name) => stale.length > 0 || shards.get(name)?.text !== wanted.get(name))
    if (differ.length === 0 && !isSameCommit) differ.push(...[...wanted.keys()].slice(0, 1))
    for (const name of differ) {
      const text = wanted.get(name) as string
      const data = { entries: text, revision: String(revision), ...(commit !== '' && { commit }) }
      const map = await this.#maps.write({ metadata: this.#metadata(name, shards.get(name)?.map), data }, signal)
      shards.set(name, { map, name: map.metadata.name, text, revision, commit })
    }
    for (const [name, { map }] of stale) {
      await this.#maps.delete(map, signal)
      shards.delete(name)
    }
    this.#shards = shards
  }

  /** Options kept beside the entries; undefined: none. After `load`. @throws Error: somebody has changed them */
  get options(): SourceOptions | undefined {
    return this.#kept('options', readKeptOptions)
  }

  /** Last commit that was applied completely; empty: not known. After `load`. */
  get commit(): string {
    const inOrder = [...(this.#shards?.values() ?? [])].sort((one, other) => one.revision - other.revision)
    return inOrder.at(-1)?.commit ?? ''
  }

  /** Ids of inventories whose entries were taken over. After `load`. @throws as `options` */
  get adopted(): readonly string[] {
    return this.#kept('adopted', readKeptIds) ?? []
  }

  #kept<T>(key: string, read: (text: string) => T): T | undefined {
    const { metadata, data } = this.#source ?? {}
    const text = data?.[key]
    if (text === undefined) return undefined
    try {
      return read(text)
    } catch (cause) {
      const text = `ConfigMap ${metadata?.name}, data.${key}: ${errorText(cause)}; restore what agentk had written`
      throw new Error(text, { cause })
    }
  }

  /**
   * Keeps, beside the entries, the options for when the configuration no longer has the source, and the ids of adopted
   * inventories. After `load`. @throws as `save`
   */
  async saveOptions(options: SourceOptions, adopted: readonly string[], signal: AbortSignal): Promise<void> {
    if (!this.#shards) throw new Error('an inventory is saved after it has been loaded')
    const data = { options: JSON.stringify(options), ...(adopted.length > 0 && { adopted: JSON.stringify(adopted) }) }
    const known = this.#source?.data
    if (known?.options === data.options && known.adopted === data.adopted) return
    this.#source = await this.#maps.write({ metadata: this.#metadata(optionsName, this.#source), data }, signal)
  }

  /** Removes the ConfigMaps of a removed source, the options last. After `load`. @throws as `save` */
  async remove(signal: AbortSignal): Promise<void> {
    const shards = this.#shards
    if (!shards) throw new Error('an inventory is removed after it has been loaded')
    this.#shards = undefined
    for (const { map } of shards.values()) await this.#maps.delete(map, signal)
    if (this.#source) await this.#maps.delete(this.#source, signal)
    this.#source = undefined
    this.#shards = new Map()
  }

  #nameOf(shard: string): string {
    return `gitops-${this.#of.id}-${shard}`
  }

  #shardOf({ metadata }: ConfigMap): string {
    const shard = metadata.name.slice(this.#nameOf('').length)
    const isShard = metadata.name === this.#nameOf(shard) && /^(?:all|[0-9a-f]+)$/.test(shard)
    if (!isShard) throw new Error(`ConfigMap ${metadata.name} has the labels of the inventory ${this.#of.id}`)
    return shard
  }

  #metadata(shard: string, known: ConfigMap | undefined): ConfigMap['metadata'] {
    const { agentId, id } = this.#of
    const labels = { [sourceLabel]: id, [agentLabel]: String(agentId) }
    const { resourceVersion } = known?.metadata ?? {}
    return { name: this.#nameOf(shard), labels, ...(resourceVersion !== undefined && { resourceVersion }) }
  }
}

function keptOf(map: ConfigMap): Kept {
  const { entries, revision, commit = '' } = map.data ?? {}
  if (entries === undefined || !/^\d{1,15}$/.test(revision ?? '')) {
    throw new Error(`ConfigMap ${map.metadata.name} is no shard of an inventory`)
  }
  return { map: { metadata: map.metadata }, name: map.metadata.name, text: entries, revision: Number(revision), commit }
}

/**
 * Returns the sources with an inventory of this agent, also those that have left the configuration. Without the right
 * to list ConfigMaps it returns none.
 *
 * @param onUnreadable - called for an inventory that cannot be read: the others are returned all the same
 */
export async function storedSources(
  api: JsonApi,
  of: { readonly namespace: string; readonly agentId: bigint },
  onUnreadable: (name: string, error: unknown) => void,
  signal: AbortSignal,
): Promise<SourceOptions[]> {
  try {
    const maps = await new ConfigMaps(api, of.namespace).list(`${agentLabel}=${of.agentId}`, signal)
    return maps.flatMap(({ metadata: { name }, data }) => {
      if (data?.options === undefined || !name.startsWith(`gitops-${of.agentId}-`)) return []
      try {
        const options = readKeptOptions(data.options)
        return name === `gitops-${options.id}-${optionsName}` ? [options] : []
      } catch (error) {
        onUnreadable(name, error)
        return []
      }
    })
  } catch (error) {
    if (isForbidden(error)) return []
    throw error
  }
}
