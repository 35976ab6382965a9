import { Left, PhaseSchema, type SourceState } from '../gen/gitops_states_pb.ts'

/** Reasons why a source is not in the state of its last reconciliation, each with the phase that is shown for it. */
export const reasonPhases = {
  configuration_gone: 'NOT_READY',
  configuration_unread: 'NOT_READY',
  source_refused: 'REFUSED',
  files_refused: 'REFUSED',
  ref_not_found: 'NOT_READY',
  project_not_readable: 'NOT_READY',
  not_served: 'NOT_READY',
  kas_refused: 'NOT_READY',
  over_bound: 'NOT_READY',
} as const

export type SourceReason = keyof typeof reasonPhases

export function isSourceReason(reason: string): reason is SourceReason {
  return Object.hasOwn(reasonPhases, reason)
}

/** The phase that is shown for a source: `NOT_READY`, `SYNCED`. */
export function phaseWord({
  phase,
  left,
  isWaitingForOthers,
  reason,
}: Pick<SourceState, 'phase' | 'left' | 'isWaitingForOthers' | 'reason'>): string {
  if (isSourceReason(reason)) return reasonPhases[reason]
  if (left === Left.REMOVING) return 'REMOVING'
  if (left === Left.KEPT) return 'KEPT'
  return isWaitingForOthers ? 'WAITING_FOR_OTHERS' : (PhaseSchema.value[phase]?.name ?? '')
}
