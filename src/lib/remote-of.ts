import type { Socket } from 'node:net'
import { plainAddress } from './host-port.ts'

/**
 * The far end of a socket, as `address:port`. A socket that was accepted and the TLS that speaks on it are two objects
 * with one far end. Undefined: it is a Unix socket, or had left before anybody asked.
 */
export function remoteOf({ remoteAddress, remotePort }: Socket): string | undefined {
  return remoteAddress === undefined || remotePort === undefined ? undefined : `${remoteAddress}:${remotePort}`
}

/** The address alone of a far end; IPv4 as it is written, also on a socket of IPv6. */
export function addressOf(remote: string): string {
  return plainAddress(remote.slice(0, remote.lastIndexOf(':')))
}
