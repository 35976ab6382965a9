import { parseDuration } from '../../../lib/config.ts'
import { KasError } from '../../../lib/errors.ts'
import type { LineFilter, RecentLines } from '../../access-log/recent-lines.ts'
import type { LineStream } from './ops-socket.ts'

/**
 * `/log[?agent=N][&user=NAME][&verb=VERB][&since=10m][&follow=true]`: the last lines of the access log, and those that follow.
 *
 * @param recent - undefined: there is no access log
 */
export function logStreams(recent: RecentLines | undefined): Record<string, (query: URLSearchParams) => LineStream> {
  return {
    '/log': (query) => {
      if (!recent) {
        throw new KasError({
          code: 'NOT_SERVED',
          what: 'there is no access log: observability.access_log.output is none',
        })
      }
      const filter = filterOf(query)
      const lines = [...recent.matching(filter)]
      if (query.get('follow') !== 'true') return { lines }
      return { lines, follow: (listener) => recent.follow(filter, listener) }
    },
  }
}

function filterOf(query: URLSearchParams): LineFilter {
  const since = query.get('since')
  return {
    agent: query.get('agent') ?? undefined,
    user: query.get('user') ?? undefined,
    verb: query.get('verb') ?? undefined,
    since: since === null ? undefined : timeOf(since),
  }
}

/** So long ago, or a time. @returns as in a line. @throws KasError INVALID_MESSAGE */
function timeOf(text: string): string {
  const agoMs = parseDuration(text)
  const at = agoMs === undefined ? Date.parse(text) : Date.now() - agoMs
  if (!Number.isNaN(at)) return new Date(at).toISOString()
  throw new KasError({ code: 'INVALID_MESSAGE', detail: `since: "${text}" is neither a duration as 10m nor a time` })
}
