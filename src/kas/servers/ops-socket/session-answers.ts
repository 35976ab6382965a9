import { KasError } from '../../../lib/errors.ts'
import { maxReasonCharacters, type ReplicaSessions } from '../../sessions/replica-sessions.ts'
import type { SessionFilter } from '../../sessions/session-table.ts'
import { agentIdOf } from './ops-answers.ts'
import type { OpsAnswer } from './ops-socket.ts'

type Asked = Pick<ReplicaSessions, 'list' | 'end'>

/** `GET /sessions[?agent=N][&user=NAME][&id=ID]`: what lasts, at all replicas. */
export function sessionAnswers(sessions: Asked): Record<string, OpsAnswer> {
  return { '/sessions': (query) => sessions.list(filterOf(query)) }
}

/** `POST /sessions/end?…[&reason=TEXT]`, with one filter at least: ends what matches it. */
export function sessionActions(sessions: Asked): Record<string, OpsAnswer> {
  return {
    '/sessions/end': (query) => {
      const filter = filterOf(query)
      const reason = query.get('reason') ?? ''
      if (Object.keys(filter).length === 0) throw invalid('agent, user or id is needed: else all would end')
      if (reason.length > maxReasonCharacters) throw invalid(`reason: at most ${maxReasonCharacters} characters`)
      return sessions.end(filter, reason)
    },
  }
}

function filterOf(query: URLSearchParams): SessionFilter {
  const [agent, user, id] = ['agent', 'user', 'id'].map((name) => parameterOf(query, name))
  return {
    ...(agent === undefined ? {} : { agentId: agentIdOf(agent) }),
    ...(user === undefined ? {} : { user }),
    ...(id === undefined ? {} : { id }),
  }
}

/** One that is empty is not left out: the others would match more than was meant. @throws KasError INVALID_MESSAGE */
function parameterOf(query: URLSearchParams, name: string): string | undefined {
  const value = query.get(name) ?? undefined
  if (value === '') throw invalid(`${name} is empty`)
  return value
}

function invalid(detail: string): KasError {
  return new KasError({ code: 'INVALID_MESSAGE', detail })
}
