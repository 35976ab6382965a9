import type { Clock } from '../../../../lib/clock.ts'
import { KasError } from '../../../../lib/errors.ts'
import type { Impersonation } from '../../../../proto/http/http-message.ts'

export interface CheckedAccess {
  /** as whom the caller was let do what it does */
  readonly first: Impersonation | undefined
  /** as whom it may now; throws what it is refused with */
  ask(signal: AbortSignal): Promise<Impersonation | undefined>
  /** it may no longer, or only as somebody else */
  withdraw(reason: KasError): void
}

/** With answers that the directory keeps for a minute, who is refused since is found within 5 minutes. ms */
export const accessCheckMs = 240_000

const refusals: ReadonlySet<string> = new Set([
  'JOB_TOKEN_UNAUTHORIZED',
  'JOB_TOKEN_FORBIDDEN',
  'JOB_TOKEN_NOT_FOUND',
  'AGENT_NOT_ALLOWED',
  'USER_UNAUTHORIZED',
  'IMPERSONATION_UNKNOWN',
])

/**
 * Asks again and again whether a caller still may, as whom it was let. A directory that is away withdraws nothing.
 *
 * @returns ends it
 */
export function checkAccess({ first, ask, withdraw }: CheckedAccess, clock: Clock, periodMs: number): () => void {
  let asking: AbortController | undefined
  let cancel = clock.after(periodMs, check)
  function check(): void {
    asking = new AbortController()
    const { signal } = asking
    void ask(signal)
      .then((now) => (isSame(first, now) ? undefined : changed()), refusalOf)
      .then((reason) => {
        if (signal.aborted) return
        if (reason) withdraw(reason)
        else cancel = clock.after(periodMs, check)
      })
  }
  return () => {
    cancel()
    asking?.abort(new KasError({ code: 'CANCELLED' }))
  }
}

function refusalOf(error: unknown): KasError | undefined {
  const failure = KasError.from(error)
  return refusals.has(failure.code) ? failure : undefined
}

/** Roles were given or taken: what runs would go on with those of before. */
function changed(): KasError {
  return new KasError({ code: 'FORBIDDEN', reason: 'the roles of the caller have changed' })
}

function isSame(one: Impersonation | undefined, other: Impersonation | undefined): boolean {
  return JSON.stringify(one) === JSON.stringify(other)
}
