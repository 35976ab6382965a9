import { KasError } from '../../lib/errors.ts'
import { isImpersonationHeader } from '../../lib/impersonated-names.ts'
import type { Logger } from '../../lib/log.ts'
import { printable } from '../../lib/printable.ts'
import type { Headers, Impersonation } from '../../proto/http/http-message.ts'
import { accountIdentity, impersonationHeaders, type ServiceAccountName } from './impersonation-headers.ts'
import { type MayImpersonate, refusedHeaders, refusedIdentity } from './may-impersonate.ts'

/** Limits of the entries that one message names, and of the characters of each. */
const maxNamed = { entries: 10, characters: 256 }
/** Limit of logged entries for each list: callers choose names, and take no place of the configuration's. */
export const maxLoggedEntries = 100

interface List {
  readonly flag: string
  /** chart values that fill the list */
  readonly values: string
  readonly refusal: string
}

const lists = {
  callers: {
    flag: '--callers-may-impersonate',
    values: 'impersonation.callers',
    refusal: 'agentk refuses Impersonate-* headers of callers that act as the agent',
  },
  kas: {
    flag: '--may-impersonate',
    values: 'impersonation.allowed',
    refusal: 'agentk may not act as the identity that the configuration of the agent names',
  },
} as const satisfies Record<keyof MayImpersonate, List>

export interface IdentitiesOptions {
  /** identity of agentk itself, by `--as` or its kubeconfig */
  readonly own?: Impersonation | undefined
  readonly may: MayImpersonate
}

/**
 * Decides which identity a request to the API server acts as. Each identity that kas, the agent's configuration or a
 * caller names passes here. The operator's flags decide which of them agentk accepts, whatever kas sends.
 */
export class Identities {
  readonly may: MayImpersonate
  readonly #log: Pick<Logger, 'warn'>
  readonly #own: Impersonation | undefined
  readonly #logged: Readonly<Record<keyof MayImpersonate, Set<string>>> = { callers: new Set(), kas: new Set() }

  constructor({ log }: { readonly log: Pick<Logger, 'warn'> }, { own, may }: IdentitiesOptions) {
    this.#log = log
    this.#own = own
    this.may = may
  }

  /**
   * @param sent - identity that kas names; absent: agentk itself
   * @param request - all headers of the caller's request
   * @returns headers of the request to the API server: name, value, name, value
   * @throws KasError IDENTITY_REFUSED, or STATUS Unavailable: agentk itself acts as another identity already
   */
  headers(sent: Impersonation | undefined, request: Headers = []): string[] {
    const isAskedByCaller = request.some(([name]) => isImpersonationHeader(name))
    if (isAskedByCaller && impersonationHeaders(this.#own, undefined, []).length > 0) throw nested('agentk itself')
    if (isAskedByCaller && impersonationHeaders(undefined, sent, []).length > 0) throw nested('the caller')
    this.#check('callers', refusedHeaders(request, this.may.callers))
    const headers = impersonationHeaders(this.#own, sent, request)
    if (sent) this.#check('kas', refusedIdentity(sent, this.may.kas))
    return headers
  }

  /**
   * Returns headers of a request that acts as a service account; `account` absent: as agentk.
   *
   * @throws KasError as `headers`
   */
  accountHeaders(account: ServiceAccountName | undefined): string[] {
    return this.headers(account && accountIdentity(account))
  }

  #check(name: keyof MayImpersonate, refused: readonly string[]): void {
    if (refused.length === 0) return
    const { flag, values, refusal } = lists[name]
    const entries = refused.slice(0, maxNamed.entries).map(shown)
    this.#logOnce(name, entries)
    const more = refused.length > entries.length ? ` and ${refused.length - entries.length} more` : ''
    const detail = `${refusal}: ${entries.join(', ')}${more} is not on the list of its flag ${flag} (chart: ${values})`
    throw new KasError({ code: 'IDENTITY_REFUSED', detail })
  }

  /** Logs each entry once: an operator reads what a list lacks, and callers cannot fill the log. */
  #logOnce(name: keyof MayImpersonate, entries: readonly string[]): void {
    const { flag, values: chart } = lists[name]
    const logged = this.#logged[name]
    const fresh = entries.filter((entry) => !logged.has(entry)).slice(0, maxLoggedEntries - logged.size)
    if (fresh.length === 0) return
    for (const entry of fresh) logged.add(entry)
    const isLast = logged.size >= maxLoggedEntries ? { is_last: true } : {}
    this.#log.warn(
      { entries: fresh, flag, chart, ...isLast },
      'A request was refused: the list of this flag lacks whom it acts as',
    )
  }
}

function nested(who: string): KasError {
  const detail = `Impersonate-* headers of callers are refused here: ${who} acts as another identity already`
  return new KasError({ code: 'IDENTITY_REFUSED', detail })
}

function shown(entry: string): string {
  const text = printable(entry)
  return text.length > maxNamed.characters ? `${text.slice(0, maxNamed.characters)}…` : text
}
