import type { Clock } from '../../../lib/clock.ts'
import { Counter } from '../../../lib/counter.ts'
import { KasError } from '../../../lib/errors.ts'
import { networkOf } from '../../../lib/host-port.ts'
import { RateLimits } from '../../../lib/rate-limit.ts'
import { tokenHash } from '../../../lib/token-hash.ts'
import type { Turn } from './gitlab-call-limit.ts'
import { isRefusal } from './gitlab-reach.ts'
import { SeenHashes } from './seen-hashes.ts'

export interface UnknownCredential {
  /** a token or cookie */
  readonly secret: string
  /** address of the client that sends the credential; undefined: kas itself asks */
  readonly from: string | undefined
}

export interface UnknownCredentialsOptions {
  /** refusals of one address, and of one token prefix, at once */
  readonly maxFailures?: number
  readonly forgivenPerSecond?: number
  /** addresses that are remembered, and token prefixes */
  readonly maxSources?: number
  /** questions at once about credentials that come again after they were not checked */
  readonly maxReturning?: number
  /** the same from one address */
  readonly maxReturningPerAddress?: number
}

const defaults = {
  maxFailures: 30,
  forgivenPerSecond: 0.5,
  maxSources: 10_000,
  maxReturning: 100,
  maxReturningPerAddress: 10,
}

/** Characters of a token's prefix: GitLab's own prefix, and enough random ones that few good tokens share it. */
const beginningLength = 12
/** A JWT as GitLab gives to jobs, with or without GitLab's prefix. All share the header, but not the signature. */
const jwt = /^(?:[a-z]{1,20}-)?eyJ/

/**
 * Decides which questions to GitLab may wait for their turn if nothing good is known of their credential. Anyone can
 * make up credentials. So their cost is bounded, and in a flood the few good ones still pass:
 *
 * - A source has a budget of refusals, which good answers refill. A source is an address, or a token's prefix: behind a
 *   front that is not trusted, all clients have one address. Once the budget is spent, the source's questions do not
 *   wait, and waiting ones are refused at their turn. This is no ban: while GitLab has few calls, they are asked.
 * - A flood of random tokens behind such a front spends the budget of all clients behind it. But kubectl and agents
 *   repeat the same credential, and a repeated credential may wait, in a bounded number.
 * - Addresses take turns, and share the places of the queue.
 */
export class UnknownCredentials {
  readonly #options: Required<UnknownCredentialsOptions>
  readonly #addresses: FailureBudgets
  readonly #beginnings: FailureBudgets
  /** hashes of credentials that were not checked lately */
  readonly #unchecked: SeenHashes
  /** waiting questions about repeated credentials, by address */
  readonly #returning: Counter<string>

  constructor(components: { clock: Clock }, options: UnknownCredentialsOptions = {}) {
    this.#options = { ...defaults, ...options }
    this.#addresses = new FailureBudgets(components, this.#options)
    this.#beginnings = new FailureBudgets(components, this.#options)
    this.#unchecked = new SeenHashes(components)
    const { maxReturning: max, maxReturningPerAddress: maxOfKey } = this.#options
    this.#returning = new Counter({ max, maxOfKey })
  }

  /**
   * Asks about a credential, and counts the answer.
   *
   * @param ask - gets the question's turn
   * @throws errors of `ask`; after CREDENTIAL_NOT_CHECKED, the next attempt with this credential counts as repeated
   */
  async check<T>(
    { secret, from }: UnknownCredential,
    ask: (how: Required<Pick<Turn, 'mayWait' | 'source'>>) => Promise<T>,
  ): Promise<T> {
    const address = from === undefined ? undefined : networkOf(from)
    const beginning = tokenHash(beginningOf(secret))
    const isSpent = () =>
      this.#beginnings.isSpent(beginning) || (address !== undefined && this.#addresses.isSpent(address))
    const hash = tokenHash(secret)
    const source = address ?? ''
    const leave = isSpent() && this.#unchecked.has(hash) ? this.#returning.enter(source) : undefined
    try {
      const answer = await ask({ mayWait: () => leave !== undefined || !isSpent(), source })
      this.#beginnings.succeeded(beginning)
      if (address !== undefined) this.#addresses.succeeded(address)
      return answer
    } catch (failure) {
      const error = KasError.from(failure)
      if (error.code === 'CREDENTIAL_NOT_CHECKED') this.#unchecked.add(hash)
      if (isRefused(error)) {
        this.#beginnings.failed(beginning)
        if (address !== undefined) this.#addresses.failed(address)
      }
      throw failure
    } finally {
      leave?.()
    }
  }
}

/** Returns the prefix of a token; of a JWT, the beginning of its signature. */
function beginningOf(secret: string): string {
  const from = jwt.test(secret) ? secret.lastIndexOf('.') + 1 : 0
  return secret.slice(from, from + beginningLength)
}

/** True if GitLab refused the credential. A cookie that GitLab cannot read (400) counts as refused. */
function isRefused(error: KasError): boolean {
  return isRefusal(error) || (error.spec.code === 'GITLAB_STATUS' && error.spec.status === 400)
}

/** Budgets of failures, by source. */
export class FailureBudgets {
  readonly #maxFailures: number
  /** failures that each source may still have */
  readonly #left: RateLimits<string>

  constructor(
    components: { clock: Clock },
    options: Pick<Required<UnknownCredentialsOptions>, 'maxFailures' | 'forgivenPerSecond' | 'maxSources'>,
  ) {
    const { maxFailures: burst, forgivenPerSecond: perSecond, maxSources: maxKeys } = options
    this.#maxFailures = burst
    this.#left = new RateLimits(components.clock, { perSecond, burst, maxKeys })
  }

  isSpent(source: string): boolean {
    return (this.#left.known(source)?.units ?? this.#maxFailures) <= 0
  }

  /** Counts a failure. A budget goes at most one below zero: so forgiven failures can be used at once. */
  failed(source: string): void {
    const left = this.#left.of(source)
    left.take(Math.min(1, left.units + 1))
  }

  /** Refills the budget by one failure. */
  succeeded(source: string): void {
    this.#left.known(source)?.give(1)
  }
}
