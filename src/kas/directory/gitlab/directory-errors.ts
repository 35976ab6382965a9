import { KasError } from '../../../lib/errors.ts'
import { isRefusal } from './gitlab-reach.ts'

/** Translates failures of GitLab's answers to errors for agents and callers. */

/** Returns the answer; `undefined`: GitLab refuses it. @throws KasError DIRECTORY_UNAVAILABLE; the signal's reason */
export async function unlessRefused<T>(answer: Promise<T>, signal: AbortSignal): Promise<T | undefined> {
  try {
    return await answer
  } catch (error) {
    signal.throwIfAborted()
    if (isRefusal(KasError.from(error))) return undefined
    throw unavailable(KasError.from(error))
  }
}

/** Runs `action`. @throws KasError that `errorFor` makes of a failure; the signal's reason */
export async function translated<T>(
  errorFor: (error: KasError) => KasError,
  signal: AbortSignal,
  action: () => Promise<T>,
): Promise<T> {
  try {
    return await action()
  } catch (error) {
    signal.throwIfAborted()
    const failure = KasError.from(error)
    throw failure.code === 'CREDENTIAL_NOT_CHECKED' ? failure : errorFor(failure)
  }
}

/** Translates a failure to upstream's code, and the reason for agentk's log (doc/reference/tunnel-protocol.md 2.6). */
export function agentErrors(cause: KasError): KasError {
  const { spec } = cause
  if (spec.code !== 'GITLAB_STATUS' || !isRefusal(cause)) return unavailable(cause)
  const by: Readonly<Record<number, 'UNAUTHENTICATED' | 'FORBIDDEN' | 'AGENT_NOT_FOUND'>> = {
    401: 'UNAUTHENTICATED',
    403: 'FORBIDDEN',
    404: 'AGENT_NOT_FOUND',
  }
  return new KasError({ code: by[spec.status] ?? 'DIRECTORY_UNAVAILABLE', reason: reasonOf(cause) }, { cause })
}

export function unavailable(cause: KasError): KasError {
  return new KasError({ code: 'DIRECTORY_UNAVAILABLE', reason: reasonOf(cause) }, { cause })
}

/** Returns the failure's text; of a status, with GitLab as its source. */
function reasonOf(cause: KasError): string {
  return cause.code === 'GITLAB_STATUS' ? `GitLab: ${cause.message}` : cause.message
}

/**
 * Translates a failure (doc/reference/tunnel-protocol.md 6.3). The caller sees the cause (doc/reference/captured.md 3).
 */
export function jobErrors(cause: KasError): KasError {
  const by: Readonly<Record<number, 'JOB_TOKEN_UNAUTHORIZED' | 'JOB_TOKEN_FORBIDDEN' | 'JOB_TOKEN_NOT_FOUND'>> = {
    401: 'JOB_TOKEN_UNAUTHORIZED',
    403: 'JOB_TOKEN_FORBIDDEN',
    404: 'JOB_TOKEN_NOT_FOUND',
  }
  const code = isRefusal(cause) && cause.spec.code === 'GITLAB_STATUS' ? by[cause.spec.status] : undefined
  return new KasError({ code: code ?? 'JOB_AGENTS_FAILED' }, { cause })
}

/**
 * Translates a failure (doc/reference/tunnel-protocol.md 6.3). A cookie that GitLab cannot read (400) is no fault of
 * the server (doc/reference/gitlab-contract.md 9.1 no. 7).
 */
export function userErrors(cause: KasError): KasError {
  const isUnreadable = cause.spec.code === 'GITLAB_STATUS' && cause.spec.status === 400
  return new KasError({ code: isRefusal(cause) || isUnreadable ? 'USER_UNAUTHORIZED' : 'USER_FAILED' }, { cause })
}
