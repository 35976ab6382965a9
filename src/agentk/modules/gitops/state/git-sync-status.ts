import { Phase, PhaseSchema, type SourceState } from '../../../../proto/gen/gitops_states_pb.ts'
import { keyName } from '../manifests/object-key.ts'
import type { SourceStatus } from './source-status.ts'

/** `spec` of a GitSync. */
export function gitSyncSpec({ options: { project, name } }: SourceStatus): object {
  return { project, ...(name !== undefined && { name }) }
}

/** `status` of a GitSync: JSON, in the shape of deploy/kubernetes/agentk-gitops/0-gitsync.yaml. */
export function gitSyncStatus({ state }: SourceStatus): object {
  const { commit, wanted, counts, problem, plan, planned, trouble, orphan, atMs } = state
  const { $typeName: _, $unknown: __, ...numbers } = counts ?? { $typeName: '', $unknown: [] }
  return {
    commit,
    wanted,
    phase: nameOf(state.phase),
    at: new Date(Number(atMs)).toISOString(),
    counts: numbers,
    problem,
    plan,
    planned: planned.map(keyName),
    orphans: orphan.map(keyName),
    trouble: trouble.map(({ key, text, file, line }) => ({ object: key ? keyName(key) : '', text, file, line })),
    conditions: conditionsOf(state),
  }
}

/** As kstatus reads them. */
function conditionsOf({ phase, problem, atMs }: SourceState): object[] {
  const is = (...phases: Phase[]) => (phases.includes(phase) ? 'True' : 'False')
  const common = { reason: nameOf(phase), message: problem, lastTransitionTime: new Date(Number(atMs)).toISOString() }
  return [
    { type: 'Ready', status: is(Phase.SYNCED), ...common },
    { type: 'Reconciling', status: is(Phase.READING, Phase.APPLYING, Phase.PRUNING), ...common },
    { type: 'Stalled', status: is(Phase.REFUSED, Phase.APPROVAL, Phase.PAUSED), ...common },
  ]
}

/** `Synced`: a condition's reason is in that form. */
function nameOf(phase: Phase): string {
  const [first = '', ...rest] = PhaseSchema.value[phase]?.name ?? ''
  return first + rest.join('').toLowerCase()
}
