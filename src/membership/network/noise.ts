import { hkdfSync } from 'node:crypto'
import { type NoiseComponents, noise } from '@libp2p/noise'

/**
 * The secret of the installation makes a member; a peer without it does not pass the handshake (doc/internals/membership.md "Who
 * gets in").
 */

const prologueInfo = 'kas gossip: noise prologue, version 1'
const nameInfo = 'kas gossip: protocol name, version 1'

/**
 * Returns noise with a prologue derived from the secret. With another secret the first encrypted message cannot be
 * decrypted, and the handshake ends within milliseconds. The protocol's name is derived from the secret too. So two
 * members that share only the previous secret find it, whether it is the current or the previous one of each.
 *
 * @param previous - also accepted and offered, while the secret is being changed
 */
export function noiseOf(secret: Uint8Array, previous?: Uint8Array) {
  return [secret, ...(previous ? [previous] : [])].map((key) => (components: NoiseComponents) => {
    const encrypter = noise({ prologueBytes: derive(key, prologueInfo, 32) })(components)
    return Object.assign(encrypter, { protocol: protocolOf(key) })
  })
}

/** Names of the protocols that `noiseOf` accepts. */
export function protocolsOf(secret: Uint8Array, previous?: Uint8Array): readonly string[] {
  return [secret, ...(previous ? [previous] : [])].map(protocolOf)
}

/** `/kas/noise/1/` and 16 hexadecimal digits of a hash of the secret. */
export function protocolOf(secret: Uint8Array): string {
  return `/kas/noise/1/${Buffer.from(derive(secret, nameInfo, 8)).toString('hex')}`
}

function derive(secret: Uint8Array, info: string, bytes: number): Uint8Array {
  return new Uint8Array(hkdfSync('sha256', secret, new Uint8Array(), info, bytes))
}
