import { hopByHopHeaders } from '../../../proto/hop-by-hop.ts'
import { canonicalHeaderName, type Headers, type HttpResponseHeader } from '../../../proto/http-over-grpc.ts'

const notPassed = new Set(hopByHopHeaders)

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
  const header: Headers = []
  const upgraded = statusCode === 101
  let named: string[] | undefined
  for (let i = 0; i + 1 < rawHeaders.length; i += 2) {
    const name = canonicalHeaderName(latin1(rawHeaders[i] as Buffer | string))
    const value = latin1(rawHeaders[i + 1] as Buffer | string)
    if (name === 'Connection')
      named = [...(named ?? []), ...value.split(',').map((each) => canonicalHeaderName(each.trim()))]
    if (notPassed.has(name) && !(upgraded && name === 'Upgrade')) continue
    add(header, name, value)
  }
  if (upgraded) add(header, 'Connection', 'upgrade')
  add(header, 'Via', via)
  return {
    statusCode,
    status: statusText ? `${statusCode} ${statusText}` : String(statusCode),
    header: named && !upgraded ? header.filter(([name]) => !named.includes(name)) : header,
  }
}

function add(header: Headers, name: string, value: string): void {
  const known = header.find((entry) => entry[0] === name)
  if (known) known[1].push(value)
  else header.push([name, [value]])
}

function latin1(text: Buffer | string): string {
  return typeof text === 'string' ? text : text.toString('latin1')
}
