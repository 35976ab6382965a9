import { isIPv6 } from 'node:net'
import type { Clock } from '../../../lib/clock.ts'
import { KasError } from '../../../lib/errors.ts'
import { plainAddress } from '../../../lib/host-port.ts'
import { tokenHash } from '../token-hash.ts'
import { FailureBudgets } from './failure-budgets.ts'
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
}

const defaults = { maxFailures: 30, forgivenPerSecond: 0.5, maxSources: 10_000, maxReturning: 100 }

/** Of a token: what GitLab puts before it, and so much chance that few good ones share it. */
const beginningLength = 12

/**
 * Which questions to GitLab about credentials that nothing good is known of may wait for their turn. Anybody can make
 * credentials up, so what they cost is bounded, and in a flood the few that are good still come through:
 *
 * - A source has a budget of refusals, which answers make up for: an address (X-Forwarded-For is not believed), and
 *   the beginning of a token, for behind a front all come from one address. Past it its questions do not wait, and
 *   those that do are refused when their turn comes. That is no ban: where GitLab is hardly asked, they are asked.
 * - Who floods with tokens made up at random behind a front spends the budget of all who come by it. But kubectl and
 *   agents come again with the same credential, and who comes again may wait, in a bounded number.
 */
export class UnknownCredentials {
  readonly #options: Required<UnknownCredentialsOptions>
  readonly #addresses: FailureBudgets
  readonly #beginnings: FailureBudgets
  /** hashes of credentials that were not checked */
  readonly #unchecked: SeenHashes
  #returning = 0

  constructor(components: { clock: Clock }, options: UnknownCredentialsOptions = {}) {
    this.#options = { ...defaults, ...options }
    this.#addresses = new FailureBudgets(components, this.#options)
    this.#beginnings = new FailureBudgets(components, this.#options)
    this.#unchecked = new SeenHashes(components)
  }

  /**
   * Asks, and counts what is answered.
   *
   * @param ask - `mayWait` tells whether the question may wait for its turn, now
   * @throws what `ask` throws; CREDENTIAL_NOT_CHECKED makes the next try one that comes again
   */
  async check<T>({ secret, from }: UnknownCredential, ask: (mayWait: () => boolean) => Promise<T>): Promise<T> {
    const address = from === undefined ? undefined : networkOf(from)
    const beginning = tokenHash(secret.slice(0, beginningLength))
    const isSpent = () =>
      this.#beginnings.isSpent(beginning) || (address !== undefined && this.#addresses.isSpent(address))
    const hash = tokenHash(secret)
    const returns = isSpent() && this.#returning < this.#options.maxReturning && this.#unchecked.has(hash)
    if (returns) this.#returning += 1
    try {
      const answer = await ask(() => returns || !isSpent())
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
      if (returns) this.#returning -= 1
    }
  }
}

/** A cookie that GitLab cannot read is as good as made up. */
function isRefused(error: KasError): boolean {
  return isRefusal(error) || (error.spec.code === 'GITLAB_STATUS' && error.spec.status === 400)
}

/** An address, of IPv6 its first 64 bits: whoever has one has all that begin so. */
function networkOf(from: string): string {
  const address = plainAddress(from)
  if (!isIPv6(address)) return address
  const [head, tail] = (address.split('%', 1)[0] as string).split('::').map((half) => half.split(':').filter(Boolean))
  const groups = head as string[]
  const zeros = tail ? Array<string>(Math.max(0, 8 - groups.length - tail.length)).fill('0') : []
  return [...groups, ...zeros, ...(tail ?? [])].slice(0, 4).join(':')
}
