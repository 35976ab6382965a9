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
  /** address of who shows it; undefined: kas asks of itself */
  readonly from: string | undefined
}

export interface UnknownCredentialsOptions {
  /** refusals of one address, and of one beginning of a token, at once */
  readonly maxFailures?: number
  readonly forgivenPerSecond?: number
  /** addresses at once, and beginnings */
  readonly maxSources?: number
  /** questions at once about credentials that came again after they were not checked */
  readonly maxReturning?: number
  /** of them from one address */
  readonly maxReturningPerAddress?: number
}

const defaults = {
  maxFailures: 30,
  forgivenPerSecond: 0.5,
  maxSources: 10_000,
  maxReturning: 100,
  maxReturningPerAddress: 10,
}

/** Of a token: what GitLab puts before it, and so much chance that few good ones share it. */
const beginningLength = 12
/** Such as GitLab gives to jobs, with or without its prefix: the header is the same in all, the signature in none. */
const jwt = /^(?:[a-z]{1,20}-)?eyJ/

/**
 * Which questions to GitLab about credentials that nothing good is known of may wait for their turn. Anybody can make
 * credentials up, so what they cost is bounded, and in a flood the few that are good still come through:
 *
 * - A source has a budget of refusals, which answers make up for: an address, and the beginning of a token, for behind
 *   a front that is not trusted all come from one address. Past it its questions do not wait, and those that do are
 *   refused when their turn comes. That is no ban: where GitLab is hardly asked, they are asked.
 * - Who floods with tokens made up at random behind such a front spends the budget of all who come by it. But kubectl and
 *   agents come again with the same credential, and who comes again may wait, in a bounded number.
 * - Addresses take turns, and share the places where one waits.
 */
export class UnknownCredentials {
  readonly #options: Required<UnknownCredentialsOptions>
  readonly #addresses: FailureBudgets
  readonly #beginnings: FailureBudgets
  /** hashes of credentials that were not checked */
  readonly #unchecked: SeenHashes
  /** by address */
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
   * Asks, and counts what is answered.
   *
   * @param ask - gets how the question waits for its turn
   * @throws what `ask` throws; CREDENTIAL_NOT_CHECKED makes the next try one that comes again
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

/** What tokens of one source have in common. */
function beginningOf(secret: string): string {
  const from = jwt.test(secret) ? secret.lastIndexOf('.') + 1 : 0
  return secret.slice(from, from + beginningLength)
}

/** A cookie that GitLab cannot read is as good as made up. */
function isRefused(error: KasError): boolean {
  return isRefusal(error) || (error.spec.code === 'GITLAB_STATUS' && error.spec.status === 400)
}

/** How often each source failed lately. */
export class FailureBudgets {
  readonly #maxFailures: number
  /** of failures that each may still have */
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

  /** No more than one over the budget: what is forgiven may be used at once. */
  failed(source: string): void {
    const left = this.#left.of(source)
    left.take(Math.min(1, left.units + 1))
  }

  /** Makes up for one failure. */
  succeeded(source: string): void {
    this.#left.known(source)?.give(1)
  }
}
