import { keyText } from '../../../kubernetes/key.ts'
import type { ApiLane } from '../../cluster/background-requests.ts'
import { dryApply } from './apply/dry-apply.ts'
import type { SourceInventory } from './inventory/source-inventory.ts'
import type { LiveObjects } from './live/read-live.ts'
import { planPrune } from './prune/prune-plan.ts'
import { pruneInput } from './prune/prune-stage.ts'
import type { ApplyEnd, Build, DryRun, InventoryEntry, SourceClaims } from './round.ts'
import type { SourceOptions } from './source-options.ts'

export interface DryRunComponents {
  /** acts as the source's account */
  readonly lane: ApiLane
  /** acts as agentk itself */
  readonly ownLane: ApiLane
  readonly claims: SourceClaims
}

export interface DryRunInput {
  readonly commit: string
  readonly build: Build
  readonly inventory: SourceInventory
  readonly live: LiveObjects
}

/**
 * Computes what a commit would change, and writes nothing. With `server`, the API server checks each object.
 *
 * @throws the connection's error, or the signal's reason
 */
export async function dryRun(
  components: DryRunComponents,
  { commit, build, inventory, live }: DryRunInput,
  source: SourceOptions,
  signal: AbortSignal,
): Promise<DryRun> {
  const { manifests, graph, kinds } = build
  const isByServer = source.dryRunStrategy === 'server'
  const input = { manifests, graph, kinds, entries: inventory.known, live: live.objects, isByServer }
  const found = await dryApply(components, input, source, signal)
  const ends = manifests.map((manifest) => {
    const text = keyText(manifest.key)
    return { manifest, end: lateEnd(text, found, graph.named(text)) }
  })
  const nothingSent = { isRemoval: false, mayHaveCallsInFlight: false, ends: [], notes: [] }
  const left = pruneInput({ commit, build, inventory, live, ...nothingSent }, components.claims)
  const { decisions } = planPrune(left, source)
  const goes = ({ key }: InventoryEntry) => ['delete', 'confirm'].includes(decisions.get(keyText(key))?.kind ?? '')
  return { kind: 'dryRun', ends, leaving: left.entries.filter(goes), entries: inventory.known, kinds }
}

/** Returns an object's result: open while its namespace or definition has to come with the commit. */
function lateEnd(text: string, ends: ReadonlyMap<string, ApplyEnd>, before: readonly string[]): ApplyEnd {
  const end = ends.get(text) ?? { kind: 'left' as const }
  if (end.kind !== 'failed' || !['absent', 'unserved'].includes(end.problem.kind)) return end
  const isBrought = before.some((one) => ends.get(one)?.kind !== 'unchanged')
  return isBrought ? { kind: 'waits', text: 'whether it would be applied is known once what it needs is there' } : end
}
