import { Code, KasError } from '../../../lib/errors.ts'

/**
 * A failure between agentk and the API server as the status that upstream gives it: the call's own end keeps its code,
 * all else is Unavailable with the prefix that says which hop broke (wire-protocol 1.4).
 */
export function apiError(error: unknown): KasError {
  if (error instanceof KasError && error.code !== 'UNREACHABLE') return error
  const { name, message } = error instanceof Error ? error : new Error(String(error))
  const grpc =
    name === 'AbortError' ? Code.CANCELLED : name === 'TimeoutError' ? Code.DEADLINE_EXCEEDED : Code.UNAVAILABLE
  return new KasError({ code: 'STATUS', grpc, message: `gRPC -> HTTP: ${describe(error, message)}` }, { cause: error })
}

/** An AggregateError (all addresses refused) has an empty message of its own. */
function describe(error: unknown, message: string): string {
  if (message) return message
  if (error instanceof AggregateError) return error.errors.map((each: Error) => each.message).join('; ')
  return String((error as NodeJS.ErrnoException).code ?? 'unknown error')
}
