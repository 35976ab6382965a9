import type { ObjectKey } from '../../../../kubernetes/key.ts'
import type { KubernetesObject } from '../../../../kubernetes/object.ts'
import type { ApiLane } from '../../../cluster/background-requests.ts'
import { DryLanes } from '../live/dry-lanes.ts'
import type { LiveObject } from '../live/live-object.ts'
import type { Manifest } from '../manifests/manifest.ts'
import type { ApplyEnd, SourceClaims } from '../round.ts'
import type { SourceOptions } from '../source-options.ts'
import { type Applied, Applier } from './applier.ts'
import { ApplyRun, type ApplyRunComponents, type ApplyRunInput } from './apply-run.ts'
import { ownershipProblem } from './ownership.ts'
import { decideReplacement, tryMaking } from './replacement.ts'
import { Scalers } from './scalers.ts'

export interface DryApplyComponents {
  /** acts as the source's account */
  readonly lane: ApiLane
  /** acts as agentk itself */
  readonly ownLane: ApiLane
  readonly claims: Pick<SourceClaims, 'isHandedOver'>
  /** shared by several calls; absent: for this one */
  readonly dryLanes?: DryLanes
  readonly scalers?: Scalers
  /** Called with the object that the API server would store. */
  readonly onAnswer?: (key: ObjectKey, object: KubernetesObject) => void
  /** Called with an object that would be deleted and made again. Absent: such an object has a problem. */
  readonly onReplaced?: (key: ObjectKey) => void
  /** as in ApplyRun */
  readonly checksOwners?: ApplyRunComponents['checksOwners']
}

export interface DryApplyInput extends Omit<ApplyRunInput, 'id' | 'superseded' | 'manifests'> {
  readonly manifests: readonly Manifest[]
  /** the API server checks each object by a dry run */
  readonly isByServer: boolean
}

/**
 * Applies manifests by dry runs: nothing is written. Objects for which another server may answer are not compared:
 * that server may store a dry run.
 *
 * @returns by `keyText`. @throws the connection's error, or the signal's reason
 */
export async function dryApply(
  components: DryApplyComponents,
  input: DryApplyInput,
  source: SourceOptions,
  signal: AbortSignal,
): Promise<ReadonlyMap<string, ApplyEnd>> {
  const superseded = new AbortController().signal
  const own = { id: source.id, superseded }
  return await new ApplyRun(applyComponents(components, input, source), { ...input, ...own }, signal).run()
}

function applyComponents(
  components: DryApplyComponents,
  { kinds, manifests, isByServer }: DryApplyInput,
  source: SourceOptions,
): ApplyRunComponents {
  const { lane, ownLane, claims, onAnswer, onReplaced, checksOwners } = components
  const { isHandedOver } = claims
  const { dryLanes = new DryLanes({ lane, ownLane }) } = components
  const { scalers = new Scalers({ lane, ownLane, kinds, manifests }) } = components
  const apply: Applier['apply'] = async (request, signal) => {
    if (!isByServer) return assumed
    const dry = await dryLanes.laneOf(request.kind, signal)
    if ('lane' in dry) {
      const outcome = await new Applier({ lane: dry.lane, isHandedOver, scalers }, source).apply(request, signal)
      if ('object' in outcome) onAnswer?.(request.key, outcome.object)
      return outcome
    }
    const problem = request.live && ownershipProblem(request.live, request, { ...source, isHandedOver })
    return problem ? { problem } : { ...assumed, uncompared: dry.risk }
  }
  const replace: ApplyRunComponents['replace'] = async (request, _, signal) => {
    if (!onReplaced) return { problem: { kind: 'immutable', text: 'it would be made again' } }
    const decision = await decideReplacement({ lane, dryLanes }, request, source, signal)
    if (decision.kind === 'stays') return { problem: decision.problem }
    if (decision.kind === 'goes' && decision.asks) return { problem: decision.asks }
    onReplaced(request.key)
    return assumed
  }
  return {
    applier: { apply },
    replace,
    tryMaking: async (request, signal) =>
      onReplaced ? await tryMaking(request, dryLanes, source, signal) : { kind: 'refused', text: '' },
    pass: async () => undefined,
    lane,
    kindsWith: async () => kinds,
    onEnd: () => undefined,
    judge: async () => ({ kind: 'write' }),
    isDrifted: () => false,
    ...(checksOwners && { checksOwners }),
    remember: async () => undefined,
  }
}

/** Metadata of an object that the API server was not asked about. */
export const unknownLive: LiveObject = {
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
}

/** Result for such an object. */
const assumed: Applied = { live: unknownLive, object: {} }
