import { keyText, type ObjectKey } from '../../../../kubernetes/key.ts'
import type { SourceOptions } from '../source-options.ts'
import type { JsonApi } from './config-maps.ts'
import { Inventory, storedSources } from './inventory.ts'

export interface StoredObjectsComponents {
  /** acts as agentk itself */
  readonly lane: JsonApi
  /** namespace of agentk */
  readonly namespace: string
  readonly agentId: bigint
}

/** Objects of a source in its inventory: those of its last commit that was not refused. */
export interface StoredObjects {
  readonly id: string
  /** by `keyText` */
  readonly keys: ReadonlyMap<string, ObjectKey>
}

/**
 * Reads the inventory of a source, even if its project's number is not known in this process.
 *
 * @param of.id - absent: not known. @returns undefined: it has made nothing. @throws KasError UNREACHABLE; Error if a
 * shard cannot be read
 */
export async function storedObjectsOf(
  { lane, namespace, agentId }: StoredObjectsComponents,
  of: Pick<SourceOptions, 'project' | 'name'> & { readonly id: string | undefined },
  signal: AbortSignal,
): Promise<StoredObjects | undefined> {
  const isThis = ({ project, name }: SourceOptions) => project === of.project && name === of.name
  const ignore = () => undefined // another source's inventory, which that source reports itself
  const stored = of.id === undefined ? await storedSources(lane, { namespace, agentId }, ignore, signal) : []
  const id = of.id ?? stored.find(isThis)?.id
  if (id === undefined) return undefined
  const entries = await new Inventory(lane, { namespace, agentId, id }).load(signal)
  const keys = new Map(Array.from(entries.values(), ({ key }) => [keyText(key), key]))
  return keys.size > 0 ? { id, keys } : undefined
}
