import { Left, PhaseSchema, type SourceState } from '../gen/gitops_states_pb.ts'

/** Why a source is not as its last round has left it, and the phase that people read then. */
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

/** The phase of a source as people read it, of all that is known of it: `NOT_READY`, `SYNCED`. */
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
