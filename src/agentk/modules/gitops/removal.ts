import { waveGraph } from './apply/wave-graph.ts'
import { Round, type RoundComponents, type RoundDone, type RoundInput } from './round.ts'
import type { SourceOptions } from './source-options.ts'

export type RemovalInput = Pick<RoundInput, 'approved' | 'useApproval' | 'isSettling' | 'superseded'>

/**
 * Decides upon all that a source has made which the configuration has no longer: as a commit would that wants nothing. Its
 * inventory goes with the last of it. @throws as `runRound`
 */
export async function runRemoval(
  components: RoundComponents,
  removal: RemovalInput,
  options: SourceOptions,
  signal: AbortSignal,
): Promise<RoundDone> {
  const kinds = await components.kinds.current(signal)
  const nothing = { manifests: [], graph: waveGraph([]).graph, kinds }
  const told = { onWanted: () => undefined, onProgress: () => undefined }
  const input = { commit: '', files: [], ...removal, ...told, isRemoval: true }
  const result = await new Round(components, input, options, nothing, signal).run()
  if (result.entries.size === 0) await components.inventory.remove(signal)
  return result
}
