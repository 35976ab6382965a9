import { waveGraph } from './apply/wave-graph.ts'
import { Round, type RoundComponents, type RoundDone, type RoundInput } from './round.ts'
import type { SourceOptions } from './source-options.ts'

export type RemovalInput = Pick<RoundInput, 'approved' | 'useApproval' | 'isSettling' | 'superseded'>

export interface RemovalComponents extends RoundComponents {
  /** what tells of the source goes. @throws: it is there still */
  readonly forget: (signal: AbortSignal) => Promise<void>
}

/**
 * Decides upon all that a source has made which the configuration has no longer: as a commit would that wants nothing. Its
 * state and its inventory go with the last of it, the inventory last: without it nobody would know of the rest.
 *
 * @throws as `runRound`
 */
export async function runRemoval(
  components: RemovalComponents,
  removal: RemovalInput,
  options: SourceOptions,
  signal: AbortSignal,
): Promise<RoundDone> {
  const kinds = await components.kinds.current(signal)
  const nothing = { manifests: [], graph: waveGraph([]).graph, kinds }
  const told = { onWanted: () => undefined, onProgress: () => undefined }
  const input = { commit: '', files: [], ...removal, ...told, isRemoval: true }
  const result = await new Round(components, input, options, nothing, signal).run()
  if (result.entries.size > 0) return result
  await components.forget(signal)
  await components.inventory.remove(signal)
  return result
}
