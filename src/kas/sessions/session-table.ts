import type { AgentId } from '../../call/call.ts'
import { KasError } from '../../lib/errors.ts'
import type { AccessLine } from '../access-log/access-line.ts'
import { isNamedUser } from '../access-log/named-user.ts'

/** Bound of sessions at a replica (`calls_at_replica`): each has a request, which costs far more than its entry. */
export const maxSessions = 100_000
/** Bound of sessions in one answer: those that began first. */
export const maxListed = 1000
/** Time after which a call with an end of its own counts as long. ms */
const longMs = 10_000
/** Length of the beginning of an id that can replace it. characters */
const minIdCharacters = 8

/** Fields of a session, in the words of the access log. */
export type SessionFields = Omit<Partial<AccessLine>, 'time' | 'event' | 'class' | 'id' | 'since'>

/** A call of a caller that was let in, from then to its end. */
export interface Session {
  /** a UUID, also in its lines of the access log, and in the cluster's audit log */
  readonly id: string
  readonly agentId: AgentId
  readonly user: { readonly id: bigint; readonly name: string }
  /** ms since 1970 */
  readonly since: number
  /** true: it is a watch, a log that is followed, or a connection */
  readonly lasts: boolean
  readonly fields: () => SessionFields
  /** Ends the session, with a reason for its caller if its protocol has a place for it; called once. */
  end(reason: KasError): void
}

/** Conditions of a session, all of which must hold. */
export interface SessionFilter {
  readonly agentId?: AgentId | undefined
  /** user, in the form of `isNamedUser` */
  readonly user?: string | undefined
  /** id, or its first 8 characters or more */
  readonly id?: string | undefined
}

export interface SessionReport extends SessionFields {
  readonly id: string
  /** ISO 8601 */
  readonly since: string
}

/** Running sessions of an entry on 8154. */
export class SessionTable {
  readonly #maxSessions: number
  /** by id, in the order of their beginning */
  readonly #sessions = new Map<string, Session>()

  constructor(options: { readonly maxSessions?: number } = {}) {
    this.#maxSessions = options.maxSessions ?? maxSessions
  }

  get size(): number {
    return this.#sessions.size
  }

  /**
   * @returns function to call at its end
   * @throws KasError TOO_MANY_STREAMS
   */
  add(session: Session): () => void {
    const limit = this.#maxSessions
    if (this.#sessions.size >= limit)
      throw new KasError({ code: 'TOO_MANY_STREAMS', name: 'calls_at_replica', limit, what: 'calls at this replica' })
    this.#sessions.set(session.id, session)
    return () => this.#sessions.delete(session.id)
  }

  /**
   * Lists long sessions.
   *
   * @param now - ms since 1970
   * @returns the first of them, and the number of all
   */
  list(filter: SessionFilter, now: number): { readonly sessions: readonly SessionReport[]; readonly total: number } {
    const lasting = this.#matching(filter).filter(({ lasts, since }) => lasts || now - since >= longMs)
    const sessions = lasting
      .slice(0, maxListed)
      .map(({ id, since, fields }) => ({ id, since: new Date(since).toISOString(), ...fields() }))
    return { sessions, total: lasting.length }
  }

  /**
   * Ends all matching sessions, long or not.
   *
   * @returns the number of ended ones
   */
  end(filter: SessionFilter, reason: KasError): number {
    const ended = this.#matching(filter)
    for (const session of ended) session.end(reason)
    return ended.length
  }

  #matching({ agentId, user, id }: SessionFilter): Session[] {
    if (id !== undefined && id.length < minIdCharacters) return []
    const isUser = user === undefined ? undefined : isNamedUser([user])
    return [...this.#sessions.values()].filter(
      (each) =>
        (agentId === undefined || each.agentId === agentId) &&
        (!isUser || isUser(each.user)) &&
        (id === undefined || each.id.startsWith(id)),
    )
  }
}
