import { create, type MessageInitShape } from '@bufbuild/protobuf'
import type { AgentId } from '../../call/call.ts'
import type { Clock } from '../../lib/clock.ts'
import { KasError } from '../../lib/errors.ts'
import type { Logger } from '../../lib/log.ts'
import {
  EndSessionsResponseSchema,
  ListSessionsResponseSchema,
  type SessionFilter as SessionFilterMessage,
  type SessionFilterSchema,
  Sessions,
} from '../../proto/gen/replica_sessions_pb.ts'
import { type UnaryMethods, unaryService } from '../../proto/unary.ts'
import type { Peers } from '../peers/peers.ts'
import type { SessionFilter, SessionReport, SessionTable } from './session-table.ts'

/** Bound of an operator's message to the callers whose sessions it ends. characters */
export const maxReasonCharacters = 200

/** Bound of listed sessions in one answer: replicas accept no message above 4 MiB. bytes */
const maxListedBytes = 3 * 1024 * 1024

export interface ReplicaSessionsComponents {
  readonly table: Pick<SessionTable, 'list' | 'end'>
  readonly peers: Pick<Peers, 'all' | 'broadcast'>
  /** name of this replica */
  readonly name: string
  /** ms since 1970 */
  readonly clock: Clock
  readonly log: Logger
}

/** Sessions of the replicas that answered, this one first. */
export interface SessionsReport {
  readonly replicas: readonly {
    readonly name: string
    readonly sessions: readonly SessionReport[]
    /** including those that are left out */
    readonly total: number
  }[]
  /** names of replicas that did not answer, whose sessions are unknown */
  readonly unreached: readonly string[]
}

export interface EndedReport {
  readonly replicas: readonly { readonly name: string; readonly ended: number }[]
  /** names of replicas that did not answer, whose sessions were not ended */
  readonly unreached: readonly string[]
}

/** Lists and ends sessions at all replicas. */
export class ReplicaSessions {
  readonly #components: ReplicaSessionsComponents

  constructor(components: ReplicaSessionsComponents) {
    this.#components = components
  }

  /** Methods for peers. */
  get replicaMethods(): UnaryMethods {
    return unaryService(Sessions, {
      list: async ({ filter }) => {
        const { sessions, total } = this.#list(filterOf(filter))
        return create(ListSessionsResponseSchema, { session: asMuchAsFits(sessions), total })
      },
      end: async ({ filter: message, reason }) => {
        const filter = filterOf(message)
        // a later version may send conditions that this one does not know; without any condition all sessions would end
        if (Object.keys(filter).length === 0) throw new KasError({ code: 'INVALID_MESSAGE', detail: 'no filter' })
        return create(EndSessionsResponseSchema, { ended: this.#end(filter, reason) })
      },
    })
  }

  async list(filter: SessionFilter): Promise<SessionsReport> {
    const { peers, name } = this.#components
    const answers = await peers.broadcast(Sessions.method.list, { filter: messageOf(filter) })
    const others = Array.from(answers, ([peer, { session, total }]) => ({
      name: peer.name,
      sessions: session.map((json) => JSON.parse(json) as SessionReport),
      total,
    }))
    return { replicas: [{ name, ...this.#list(filter) }, ...others], unreached: this.#unreached(answers.keys()) }
  }

  /** @param reason - for the callers; empty: none */
  async end(filter: SessionFilter, reason: string): Promise<EndedReport> {
    const { peers, name } = this.#components
    const own = { name, ended: this.#end(filter, reason) }
    const answers = await peers.broadcast(Sessions.method.end, { filter: messageOf(filter), reason })
    const others = Array.from(answers, ([peer, { ended }]) => ({ name: peer.name, ended }))
    return { replicas: [own, ...others], unreached: this.#unreached(answers.keys()) }
  }

  #list(filter: SessionFilter) {
    const { table, clock } = this.#components
    return table.list(filter, clock.now())
  }

  #end(filter: SessionFilter, reason: string): number {
    const { table, log } = this.#components
    const text = reason.slice(0, maxReasonCharacters)
    const ended = table.end(filter, new KasError({ code: 'SESSION_ENDED', ...(text === '' ? {} : { reason: text }) }))
    const { agentId, user, id } = filter
    const fields = { agent_id: agentId === undefined ? undefined : String(agentId), username: user, session: id }
    log.info({ ...fields, count: ended, reason: text }, 'An operator has ended sessions')
    return ended
  }

  #unreached(answered: Iterable<{ readonly instance: string }>): string[] {
    const instances = new Set(Array.from(answered, ({ instance }) => instance))
    return this.#components.peers.all().flatMap(({ instance, name }) => (instances.has(instance) ? [] : [name]))
  }
}

/** Returns the first ones as JSON. */
function asMuchAsFits(sessions: readonly SessionReport[]): string[] {
  const listed: string[] = []
  let bytes = 0
  for (const session of sessions) {
    const json = JSON.stringify(session)
    bytes += Buffer.byteLength(json)
    if (bytes > maxListedBytes) break
    listed.push(json)
  }
  return listed
}

function filterOf(message: SessionFilterMessage | undefined): SessionFilter {
  const { agentId = 0n, user = '', id = '' } = message ?? {}
  return {
    ...(agentId > 0n ? { agentId: agentId as AgentId } : {}),
    ...(user === '' ? {} : { user }),
    ...(id === '' ? {} : { id }),
  }
}

function messageOf({
  agentId = 0n as AgentId,
  user = '',
  id = '',
}: SessionFilter): MessageInitShape<typeof SessionFilterSchema> {
  return { agentId, user, id }
}
