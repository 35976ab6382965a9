import { isIP } from 'node:net'
import { plainAddress } from '../../../lib/host-port.ts'

/** Entries that are read: so many fronts do not stand one before another. */
const maxHops = 16
/** characters of an entry: IPv6 in brackets with a zone, and a port */
const maxEntryLength = 80

/**
 * Whom a request of a front is from: the first entry, from the right, that is of no front that is trusted. What stands left
 * of it the caller may have written. Where an entry is no address, it is the one that has written it.
 *
 * @param values - of X-Forwarded-For, one for each line
 * @param front - address of who sent the request
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

/** One by one: a header may have thousands. */
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

/** With or without a port; a zone means nothing here. Undefined: it is no address. */
function addressOfEntry(entry: string): string | undefined {
  if (entry.length > maxEntryLength) return undefined
  const { ipv6, ipv4, bare } =
    /^[ \t]*(?:\[(?<ipv6>[^[\]]+)\](?::\d{1,5})?|(?<ipv4>[\d.]+):\d{1,5}|(?<bare>\S+))[ \t]*$/.exec(entry)?.groups ?? {}
  const text = ipv6 ?? ipv4 ?? bare ?? ''
  return isIP(text) === 0 ? undefined : plainAddress(text.split('%', 1)[0] as string)
}
