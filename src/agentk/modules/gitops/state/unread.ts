import { Code, errorText, type KasError } from '../../../../lib/errors.ts'
import { Phase, type SourceState } from '../../../../proto/gen/gitops_states_pb.ts'

/** Why kas does not send a source's files: which of project, ref and files it is, and what to do. */
export function unreadState(
  error: KasError,
): Pick<SourceState, 'phase' | 'laterPhase' | 'problem' | 'reason' | 'next'> {
  const problem = errorText(error)
  const notReady = { phase: Phase.FAILING, laterPhase: 'NOT_READY', problem }
  if (error.grpcCode === Code.FAILED_PRECONDITION) {
    const next = 'mend the repository, or what paths choose of it: the commit before holds'
    return { phase: Phase.REFUSED, laterPhase: '', problem, reason: 'files_refused', next }
  }
  if (error.grpcCode === Code.NOT_FOUND && problem.startsWith('ref ')) {
    return { ...notReady, reason: 'ref_not_found', next: 'push that ref, or name another one in the source’s ref' }
  }
  if (error.grpcCode === Code.NOT_FOUND) {
    const next = 'let the agent read the project, or name another one in the source’s id'
    return { ...notReady, reason: 'project_not_readable', next }
  }
  if (error.grpcCode === Code.UNIMPLEMENTED) {
    return { ...notReady, reason: 'not_served', next: 'this kas serves no GitOps: update it' }
  }
  if (error.grpcCode === Code.INVALID_ARGUMENT || error.grpcCode === Code.RESOURCE_EXHAUSTED) {
    return { ...notReady, reason: 'kas_refused', next: 'ask for less in the agent’s file, or raise the bound of kas' }
  }
  return { ...notReady, reason: 'kas_refused', next: 'it is asked again by itself' }
}
