import { createHash, generateKeyPairSync, type KeyObject, randomBytes, sign } from 'node:crypto'
import type { TLSSocket } from 'node:tls'

/**
 * The key of one process, made at its start: its row carries the hash, and both sides of a link check it
 * (doc/routing.md "Another replica holds the agent").
 */
export interface ReplicaIdentity {
  readonly certificatePem: string
  readonly keyPem: string
  /** SHA-256 of the public key (SubjectPublicKeyInfo, DER), hex */
  readonly publicKeyHash: string
}

/** What DER (X.690) calls what a certificate is made of. */
const tags = { integer: 0x02, bits: 0x03, oid: 0x06, utf8: 0x0c, time: 0x17, sequence: 0x30, set: 0x31, version: 0xa0 }
const ecdsaWithSha256 = Buffer.from('2a8648ce3d040302', 'hex') // 1.2.840.10045.4.3.2
const commonName = Buffer.from('550403', 'hex') // 2.5.4.3
/** The dates of a certificate whose key is pinned are not checked: a clock that is wrong must not matter. */
const notBefore = '200101000000Z'
const notAfter = '491231000000Z'

export function createReplicaIdentity(): ReplicaIdentity {
  const { publicKey, privateKey } = generateKeyPairSync('ec', { namedCurve: 'P-256' })
  const spki = publicKey.export({ type: 'spki', format: 'der' })
  return {
    certificatePem: pem('CERTIFICATE', selfSigned(spki, privateKey)),
    keyPem: privateKey.export({ type: 'pkcs8', format: 'pem' }) as string,
    publicKeyHash: sha256(spki),
  }
}

/** Written here (RFC 5280 4.1): a library that can write any certificate takes a tenth of the start. */
function selfSigned(spki: Uint8Array, key: KeyObject): Buffer {
  const algorithm = der(tags.sequence, der(tags.oid, ecdsaWithSha256))
  const text = der(tags.utf8, Buffer.from('kas replica'))
  const name = der(tags.sequence, der(tags.set, der(tags.sequence, der(tags.oid, commonName), text)))
  const toSign = der(
    tags.sequence,
    der(tags.version, der(tags.integer, Buffer.of(2))), // version 3
    der(tags.integer, serialNumber()),
    algorithm,
    name, // of the issuer
    der(tags.sequence, der(tags.time, Buffer.from(notBefore)), der(tags.time, Buffer.from(notAfter))),
    name,
    spki,
  )
  return der(tags.sequence, toSign, algorithm, der(tags.bits, Buffer.of(0), sign('sha256', toSign, key)))
}

/** Positive, and without a zero in front. */
function serialNumber(): Buffer {
  const bytes = randomBytes(8)
  bytes[0] = ((bytes[0] ?? 0) & 0x7f) | 0x40
  return bytes
}

/** A tag, the length of what follows, and that: of less than 64 KiB. */
function der(tag: number, ...parts: readonly Uint8Array[]): Buffer {
  const content = Buffer.concat(parts)
  const { length } = content
  if (length < 0x80) return Buffer.concat([Buffer.of(tag, length), content])
  const bytes = length < 0x100 ? [0x81, length] : [0x82, length >> 8, length & 0xff]
  return Buffer.concat([Buffer.of(tag, ...bytes), content])
}

function pem(label: string, bytes: Buffer): string {
  const lines = bytes.toString('base64').replaceAll(/.{64}(?=.)/g, '$&\n')
  return `-----BEGIN ${label}-----\n${lines}\n-----END ${label}-----\n`
}

/** Of the other side's certificate, which TLS has proven to be its own; undefined if it showed none. */
export function peerKeyHash(socket: TLSSocket): string | undefined {
  const certificate = socket.getPeerX509Certificate()
  return certificate && sha256(certificate.publicKey.export({ type: 'spki', format: 'der' }))
}

function sha256(bytes: Uint8Array): string {
  return createHash('sha256').update(bytes).digest('hex')
}
