import { hopByHopHeaders, namedByConnection } from '../../../proto/http/hop-by-hop.ts'
import type { HttpResponseHeader } from '../../../proto/http/http-message.ts'
import { canonicalHeaderName } from '../../../proto/http/http-over-grpc.ts'

const notPassed = new Set(hopByHopHeaders)
const none: ReadonlySet<string> = new Set()

/** A header as it came: name, value, name, value. */
type RawHeaders = readonly (Buffer | string)[]

/**
 * The head of an answer as kas is sent it: canonical names, all values of a name in order, nothing of one hop, and our
 * own entry at the end of Via. An upgrade (101) keeps `Upgrade`, with `Connection` exactly `upgrade`.
 *
 * @param via - `1.1 gitlab-agent/<version>/<commit>`
 */
export function responseHeader(
  statusCode: number,
  statusText: string,
  rawHeaders: RawHeaders,
  via: string,
): HttpResponseHeader {
  const byName = new Map<string, string[]>()
  const connection: string[] = []
  const upgraded = statusCode === 101
  for (let i = 0; i + 1 < rawHeaders.length; i += 2) {
    const name = canonicalHeaderName(latin1(rawHeaders[i] as Buffer | string))
    const value = latin1(rawHeaders[i + 1] as Buffer | string)
    if (name === 'Connection') connection.push(value)
    if (!notPassed.has(name) || (upgraded && name === 'Upgrade')) add(byName, name, value)
  }
  if (upgraded) add(byName, 'Connection', 'upgrade')
  else for (const name of namedByConnection(connection) ?? none) byName.delete(name)
  add(byName, 'Via', via)
  return {
    statusCode,
    status: statusText ? `${statusCode} ${statusText}` : String(statusCode),
    header: [...byName],
  }
}

function add(byName: Map<string, string[]>, name: string, value: string): void {
  const values = byName.get(name)
  if (values) values.push(value)
  else byName.set(name, [value])
}

function latin1(text: Buffer | string): string {
  return typeof text === 'string' ? text : text.toString('latin1')
}
