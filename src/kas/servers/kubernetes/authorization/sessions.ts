import type { Clock } from '../../../../lib/clock.ts'
import type { KasError } from '../../../../lib/errors.ts'
import type { Logger } from '../../../../lib/log.ts'
import type { Impersonation } from '../../../../proto/http/http-message.ts'
import type { CallRecord } from '../../../access-log/call-record.ts'
import type { SessionTable } from '../../../sessions/session-table.ts'
import type { AuthorizationRechecks } from './authorization-rechecks.ts'
import type { Authorized } from './authorize.ts'
import type { Credentials } from './credentials.ts'

export interface SessionsComponents {
  readonly table: SessionTable
  readonly checks: AuthorizationRechecks
  /** since 1970 */
  readonly clock: Pick<Clock, 'now'>
  readonly log: Logger
}

export interface NewSession {
  readonly record: CallRecord
  readonly credentials: Credentials
  readonly letInAs: Authorized
  /** `begin()` before the directory was asked */
  readonly since: number
  readonly traceId: string | undefined
}

/** How a session ends, or goes on, by its protocol. */
export interface SessionEnds {
  readonly end: (reason: KasError) => void
  /** Its caller is somebody else in the cluster from now on; absent: it ends. */
  readonly changed?: (now: Impersonation | undefined) => void
}

export interface OpenSession {
  /** Whoever finds out ends it by this: once, and it is written down. */
  end(reason: KasError): void
  endsBy(ends: SessionEnds): void
  /** It has ended. */
  close(): void
}

/** Calls of those who were let in: whatever ends one ends it here. */
export class Sessions {
  readonly #components: SessionsComponents

  constructor(components: SessionsComponents) {
    this.#components = components
  }

  /** Before the directory is asked about its caller: what changes from then on is not missed. */
  begin(): number {
    return this.#components.checks.changes
  }

  /** @throws KasError TOO_MANY_STREAMS */
  open({ record, credentials, letInAs, since, traceId }: NewSession, first: SessionEnds): OpenSession {
    const { table, checks, clock, log } = this.#components
    const { agentId } = credentials
    const { userId, username } = letInAs.access
    let ends = first
    let isEnded = false
    const end = (reason: KasError) => {
      if (isEnded) return
      isEnded = true
      const fields = { error: reason, trace_id: traceId, session: record.auditId, agent_id: String(agentId), username }
      if (reason.code === 'REPLICA_MEMORY_FULL') log.debug(fields, 'A request was ended: others need its room')
      else {
        const isByOperator = reason.code === 'SESSION_ENDED'
        log.info(fields, isByOperator ? 'A request was ended' : 'A request was ended: its caller may no longer')
      }
      ends.end(reason)
    }
    const leaveTable = table.add({
      id: record.auditId,
      agentId,
      user: { id: userId, name: username },
      since: clock.now(),
      lasts: record.lasts,
      fields: () => record.fields(),
      end,
    })
    const caller = {
      credentials,
      letInAs,
      withdraw: end,
      get changed() {
        return ends.changed
      },
    }
    const endChecks = checks.add(caller, since)
    return {
      end,
      endsBy: (other) => {
        ends = other
      },
      close: () => {
        leaveTable()
        endChecks()
      },
    }
  }
}
