import { keyText } from '../../../kubernetes/key.ts'
import type { ApiLane } from '../../cluster/background-requests.ts'
import { type Applied, Applier } from './apply/applier.ts'
import { ApplyRun, type ApplyRunComponents } from './apply/apply-run.ts'
import { ownershipProblem } from './apply/ownership.ts'
import { Scalers } from './apply/scalers.ts'
import type { SourceInventory } from './inventory/source-inventory.ts'
import { DryLanes } from './live/dry-lanes.ts'
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
 * Computes what a commit would change, and writes nothing. With `server`, the API server checks each object. Objects
 * for which another server may answer are not compared: that server may store a dry run.
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
  const superseded = new AbortController().signal
  const run = new ApplyRun(
    applyComponents(components, build, source),
    { id: source.id, manifests, graph, kinds, entries: inventory.known, live: live.objects, superseded },
    signal,
  )
  const found = await run.run()
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

function applyComponents(
  { lane, ownLane, claims: { isHandedOver } }: DryRunComponents,
  { kinds, manifests }: Build,
  source: SourceOptions,
): ApplyRunComponents {
  const scalers = new Scalers({ lane, ownLane, kinds, manifests })
  const dryLanes = new DryLanes({ lane, ownLane })
  const apply: Applier['apply'] = async (request, signal) => {
    if (source.dryRunStrategy !== 'server') return assumed
    const dry = await dryLanes.laneOf(request.kind, signal)
    if ('lane' in dry) {
      return await new Applier({ lane: dry.lane, isHandedOver, scalers }, source).apply(request, signal)
    }
    const problem = request.live && ownershipProblem(request.live, request, { ...source, isHandedOver })
    return problem ? { problem } : { ...assumed, uncompared: dry.risk }
  }
  return {
    applier: { apply },
    replace: async () => ({ problem: { kind: 'immutable', text: 'it would be made again' } }),
    tryMaking: async () => ({ kind: 'refused', text: '' }),
    pass: async () => undefined,
    lane,
    kindsWith: async () => kinds,
    onEnd: () => undefined,
    judge: async () => ({ kind: 'write' }),
    isDrifted: () => false,
    remember: async () => undefined,
  }
}

/** Result for an object that the API server was not asked about. */
const assumed: Applied = {
  live: {
    uid: '',
    resourceVersion: '',
    owner: '',
    digest: '',
    fields: '',
    fieldsTime: '',
    generation: 0,
    replicasPath: '',
    ownsReplicas: false,
    hasOtherWriters: false,
    managers: [],
    isControlled: false,
    isBeingDeleted: false,
    holds: '',
    isLeftAlone: false,
    prune: '',
  },
  object: {},
}

/** Returns an object's result: open while its namespace or definition has to come with the commit. */
function lateEnd(text: string, ends: ReadonlyMap<string, ApplyEnd>, before: readonly string[]): ApplyEnd {
  const end = ends.get(text) ?? { kind: 'left' as const }
  if (end.kind !== 'failed' || !['absent', 'unserved'].includes(end.problem.kind)) return end
  const isBrought = before.some((one) => ends.get(one)?.kind !== 'unchanged')
  return isBrought ? { kind: 'waits', text: 'whether it would be applied is known once what it needs is there' } : end
}
