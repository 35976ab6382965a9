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
  /** clock since 1970 */
  readonly clock: Pick<Clock, 'now'>
  readonly log: Logger
}

export interface NewSession {
  readonly record: CallRecord
  readonly credentials: Credentials
  readonly letInAs: Authorized
  /** value of `begin()` before the directory was asked */
  readonly since: number
  readonly traceId: string | undefined
}

/** Ends or changes a session in the way of its protocol. */
export interface SessionEnds {
  readonly end: (reason: KasError) => void
  /** Called when the caller has another identity in the cluster; absent: the session ends. */
  readonly changed?: (now: Impersonation | undefined) => void
}

export interface OpenSession {
  /** Ends the session and logs the reason; only the first call counts. */
  end(reason: KasError): void
  endsBy(ends: SessionEnds): void
  /** Notes that the session has ended. */
  close(): void
}

/** Registers calls of admitted callers, so that rechecks, operators and memory limits can end them. */
export class Sessions {
  readonly #components: SessionsComponents

  constructor(components: SessionsComponents) {
    this.#components = components
  }

  /** Returns the number of changes so far; to be called before the directory is asked, so that none is missed. */
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
