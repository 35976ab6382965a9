import type { Clock } from '../../../lib/clock.ts'
import type { Logger } from '../../../lib/log.ts'
import { endsSoon, instantText } from '../../../lib/token-end.ts'
import type { DirectoryContents, TokenEntry } from './directory-contents.ts'
import type { DirectoryMetrics } from './directory-metrics.ts'

/** Owners whose tokens are announced. A job's token ends with its job, so it is not announced. */
export type EndingKind = 'agent' | 'user'

interface EndingToken {
  readonly of: string
  readonly kind: EndingKind
  readonly name: string | undefined
  readonly sha256: string
  readonly at: number
}

/** in ms */
const hourMs = 3_600_000
const dayMs = 24 * hourMs
/** Tokens that a log line names. The metric counts all. */
const maxNamed = 20
/** Characters of a hash that the log shows, as `kas token list` does. */
const shownHash = 12

export interface EndingTokensComponents {
  readonly clock: Clock
  readonly log: Logger
  readonly metrics: Pick<DirectoryMetrics, 'ending'>
}

/** Announces tokens of users and agents that end within 14 days: one log line a day, and a metric. */
export class EndingTokens {
  readonly #components: EndingTokensComponents
  #contents: DirectoryContents | undefined
  #loggedAt = Number.NEGATIVE_INFINITY
  #cancel: (() => void) | undefined
  #stopped = false

  constructor(components: EndingTokensComponents) {
    this.#components = components
  }

  /** Announces the tokens of these contents, which are in force from now on. */
  watch(contents: DirectoryContents): void {
    this.#contents = contents
    this.#check()
  }

  stop(): void {
    this.#stopped = true
    this.#cancel?.()
  }

  #check(): void {
    this.#cancel?.()
    if (this.#stopped || !this.#contents) return
    const { clock, metrics } = this.#components
    const now = clock.now()
    const ending = endingIn(this.#contents, now)
    const countOf = (kind: EndingKind) => ending.filter((one) => one.kind === kind).length
    metrics.ending({ agent: countOf('agent'), user: countOf('user') })
    if (ending.length > 0 && now - this.#loggedAt >= dayMs) {
      this.#loggedAt = now
      this.#log(ending)
    }
    this.#cancel = clock.after(hourMs, () => this.#check())
  }

  #log(ending: readonly EndingToken[]): void {
    const tokens = ending
      .slice(0, maxNamed)
      .map(({ of, name, sha256, at }) => ({ of, name, sha256: sha256.slice(0, shownHash), expires: instantText(at) }))
    const text = 'Tokens end within 14 days: kas user rotate and kas agent rotate give new ones'
    this.#components.log.warn({ count: ending.length, tokens }, text)
  }
}

/** Returns tokens that end soon, the earliest end first. */
function endingIn({ agentTokens, userTokens }: DirectoryContents, now: number): EndingToken[] {
  const of = <Owner>(
    kind: EndingKind,
    tokens: ReadonlyMap<string, TokenEntry<Owner>>,
    nameOf: (owner: Owner) => string,
  ) =>
    [...tokens.values()].flatMap(({ owner, name, hash, expiresAt }): EndingToken[] =>
      endsSoon(expiresAt, now) ? [{ of: `${kind} ${nameOf(owner)}`, kind, name, sha256: hash, at: expiresAt }] : [],
    )
  const all = [...of('agent', agentTokens, ({ name }) => name), ...of('user', userTokens, ({ username }) => username)]
  return all.sort((one, other) => one.at - other.at)
}
