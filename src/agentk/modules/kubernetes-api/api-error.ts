import { Code, KasError } from '../../../lib/errors.ts'
import { errorText } from '../../cluster/error-text.ts'

/**
 * A failure between agentk and the API server as the status that upstream gives it: the call's own end keeps its code,
 * all else is Unavailable with the prefix that says which hop broke (doc/reference/tunnel-protocol.md 1.4).
 */
export function apiError(error: unknown): KasError {
  if (error instanceof KasError && error.code !== 'UNREACHABLE') return error
  const name = error instanceof Error ? error.name : ''
  const grpc =
    name === 'AbortError' ? Code.CANCELLED : name === 'TimeoutError' ? Code.DEADLINE_EXCEEDED : Code.UNAVAILABLE
  return new KasError({ code: 'STATUS', grpc, message: `gRPC -> HTTP: ${errorText(error)}` }, { cause: error })
}
