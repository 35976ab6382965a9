import type { Clock } from '../../../../lib/clock.ts'
import { KasError } from '../../../../lib/errors.ts'
import type { Impersonation } from '../../../../proto/http/http-message.ts'

export interface CheckedAccess {
  /** as whom the caller was let in */
  readonly first: Impersonation | undefined
  /** as whom it would be let in now; throws what it is refused with */
  ask(signal: AbortSignal): Promise<Impersonation | undefined>
  /** it would be refused, or let in as somebody else */
  withdraw(reason: KasError): void
  /** it would be let in as somebody else, and goes on as that; absent: it is withdrawn */
  changed?: ((now: Impersonation | undefined) => void) | undefined
}

/** The directory keeps answers for a minute, so a refusal takes effect within 5 minutes. ms */
export const accessCheckMs = 240_000

/**
 * Of those who look at views, which show what runs without a request of theirs: a refusal takes effect within 60 s,
 * however long the directory keeps answers. ms
 */
export const viewsAccessCheck = { periodMs: 10_000, maxAgeMs: 45_000 } as const

const refusals: ReadonlySet<string> = new Set([
  'JOB_TOKEN_UNAUTHORIZED',
  'JOB_TOKEN_FORBIDDEN',
  'JOB_TOKEN_NOT_FOUND',
  'AGENT_NOT_ALLOWED',
  'USER_UNAUTHORIZED',
  'IMPERSONATION_UNKNOWN',
])

/**
 * Checks from time to time that a caller still has the access that it was given. A directory that is away withdraws
 * nothing.
 *
 * @returns ends the checks
 */
export function checkAccess(
  { first, ask, withdraw, changed }: CheckedAccess,
  clock: Clock,
  periodMs: number,
): () => void {
  let asking: AbortController | undefined
  let known = first
  let cancel = clock.after(periodMs, check)
  function check(): void {
    asking = new AbortController()
    const { signal } = asking
    void ask(signal)
      .then((now) => (isSame(known, now) ? undefined : become(now)), refusalOf)
      .then((reason) => {
        if (signal.aborted) return
        if (reason) withdraw(reason)
        else cancel = clock.after(periodMs, check)
      })
  }
  /** @returns why it may not go on */
  function become(now: Impersonation | undefined): KasError | undefined {
    if (!changed || asking?.signal.aborted) return rolesChanged()
    known = now
    changed(now)
    return undefined
  }
  return () => {
    cancel()
    asking?.abort(new KasError({ code: 'CANCELLED' }))
  }
}

/** Asks once. @returns why the caller, who was let in as `first`, may not go on */
export function accessLost(
  { first, ask }: Pick<CheckedAccess, 'first' | 'ask'>,
  signal: AbortSignal,
): Promise<KasError | undefined> {
  return ask(signal).then((now) => (isSame(first, now) ? undefined : rolesChanged()), refusalOf)
}

function refusalOf(error: unknown): KasError | undefined {
  const failure = KasError.from(error)
  return refusals.has(failure.code) ? failure : undefined
}

/** Roles were given or taken: what runs would keep the old ones. */
function rolesChanged(): KasError {
  return new KasError({ code: 'FORBIDDEN', reason: 'the roles of the caller have changed' })
}

function isSame(one: Impersonation | undefined, other: Impersonation | undefined): boolean {
  return JSON.stringify(one) === JSON.stringify(other)
}
