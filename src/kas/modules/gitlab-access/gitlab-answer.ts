import { hopByHopHeaders, namedByConnection } from '../../../proto/http/hop-by-hop.ts'
import type { Headers, HttpResponseHeader } from '../../../proto/http/http-message.ts'
import { canonicalHeaderName } from '../../../proto/http/http-over-grpc.ts'

const notPassed = new Set(hopByHopHeaders)

/**
 * The head of GitLab's answer as the agent gets it: canonical names, all values of a name in order, no hop-by-hop header.
 *
 * @param rawHeaders - name, value, name, value
 */
export function gitlabAnswerHeader(
  statusCode: number,
  statusText: string,
  rawHeaders: readonly string[],
): HttpResponseHeader {
  const byName = new Map<string, string[]>()
  for (let i = 0; i + 1 < rawHeaders.length; i += 2) {
    const name = canonicalHeaderName(rawHeaders[i] as string)
    const values = byName.get(name)
    if (values) values.push(rawHeaders[i + 1] as string)
    else byName.set(name, [rawHeaders[i + 1] as string])
  }
  const named = namedByConnection(byName.get('Connection') ?? [])
  const header: Headers = [...byName].filter(([name]) => !notPassed.has(name) && !named?.has(name))
  return { statusCode, status: statusText ? `${statusCode} ${statusText}` : String(statusCode), header }
}
