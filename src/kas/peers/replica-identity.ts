import { createHash, randomBytes, webcrypto } from 'node:crypto'
import type { TLSSocket } from 'node:tls'

/**
 * Key pair of one process, made at its start. The replica's row has its hash, and both ends of a link verify it
 * (doc/internals/routing.md "Another replica holds the agent").
 */
export interface ReplicaIdentity {
  readonly certificatePem: string
  readonly keyPem: string
  /** SHA-256 of the public key (SubjectPublicKeyInfo, DER), hex */
  readonly publicKeyHash: string
}

const algorithm = { name: 'ECDSA', namedCurve: 'P-256', hash: 'SHA-256' }
/** Dates that are never checked, because the key is pinned: a wrong clock must not matter. */
const notBefore = new Date('2020-01-01T00:00:00Z')
const notAfter = new Date('2049-12-31T00:00:00Z')

export async function createReplicaIdentity(): Promise<ReplicaIdentity> {
  const { X509CertificateGenerator } = await loadX509()
  const keys = await webcrypto.subtle.generateKey(algorithm, true, ['sign', 'verify'])
  const certificate = await X509CertificateGenerator.createSelfSigned(
    {
      serialNumber: randomBytes(8).toString('hex'),
      name: 'CN=kas replica',
      notBefore,
      notAfter,
      signingAlgorithm: algorithm,
      keys,
    },
    webcrypto as never,
  )
  const key = Buffer.from(await webcrypto.subtle.exportKey('pkcs8', keys.privateKey)).toString('base64')
  return {
    certificatePem: certificate.toString('pem'),
    keyPem: `-----BEGIN PRIVATE KEY-----\n${key}\n-----END PRIVATE KEY-----\n`,
    publicKeyHash: sha256(Buffer.from(await webcrypto.subtle.exportKey('spki', keys.publicKey))),
  }
}

/** Hash of the public key in the peer's certificate, which TLS has verified; undefined: it sent none. */
export function peerKeyHash(socket: TLSSocket): string | undefined {
  const certificate = socket.getPeerX509Certificate()
  return certificate && sha256(certificate.publicKey.export({ type: 'spki', format: 'der' }))
}

function sha256(bytes: Uint8Array): string {
  return createHash('sha256').update(bytes).digest('hex')
}

/** The library's container reads decorators' metadata while it loads: there is none, so empty stubs suffice. */
export async function loadX509() {
  const none = () => undefined
  if (!('getMetadata' in Reflect)) Object.assign(Reflect, { getMetadata: none, getOwnMetadata: none })
  return (await import('@peculiar/x509')).default
}
