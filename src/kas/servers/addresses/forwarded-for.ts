import { isIP } from 'node:net'
import { plainAddress } from '../../../lib/host-port.ts'

/** Entries that are read: no request passes through so many fronts. */
const maxHops = 16
/** Characters of an entry: IPv6 in brackets with a zone, and a port. */
const maxEntryLength = 80

/**
 * Returns the client of a front's request: the first entry, from the right, that is no trusted front. Entries left of
 * it may be written by the caller. If an entry is no address, the client is the sender that wrote it.
 *
 * @param values - values of X-Forwarded-For, one for each line
 * @param front - address of the sender of the request
 */
export function forwardedFor(
  values: readonly string[],
  front: string,
  isTrusted: (address: string) => boolean,
): string {
  let client = front
  let hops = 0
  for (const entry of fromTheRight(values)) {
    hops++
    const address = hops > maxHops ? undefined : addressOfEntry(entry)
    if (address === undefined) return client
    client = address
    if (!isTrusted(address)) return client
  }
  return client
}

/** Yields the entries one by one, because a header may have thousands. */
function* fromTheRight(values: readonly string[]): Iterable<string> {
  for (const value of values.toReversed()) {
    let end = value.length
    for (let comma = value.lastIndexOf(','); comma >= 0; comma = comma > 0 ? value.lastIndexOf(',', comma - 1) : -1) {
      yield value.slice(comma + 1, end)
      end = comma
    }
    yield value.slice(0, end)
  }
}

/** Parses an entry with or without a port, and drops a zone. Undefined: it is no address. */
function addressOfEntry(entry: string): string | undefined {
  if (entry.length > maxEntryLength) return undefined
  const { ipv6, ipv4, bare } =
    /^[ \t]*(?:\[(?<ipv6>[^[\]]+)\](?::\d{1,5})?|(?<ipv4>[\d.]+):\d{1,5}|(?<bare>\S+))[ \t]*$/.exec(entry)?.groups ?? {}
  const text = ipv6 ?? ipv4 ?? bare ?? ''
  return isIP(text) === 0 ? undefined : plainAddress(text.split('%', 1)[0] as string)
}
