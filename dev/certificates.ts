import { randomBytes, webcrypto } from 'node:crypto'
import type { Extension } from '@peculiar/x509'
import { loadX509 } from '../src/kas/peers/replica-identity.ts'

/** Certificates for development and tests: an authority, and those that it signs. Keys are ECDSA P-256, all is PEM. */

export interface Pem {
  readonly certificate: string
  readonly key: string
}

export interface ServingNames {
  readonly dns: readonly string[]
  readonly ip: readonly string[]
}

export interface ClientName {
  /** name of the user for Kubernetes */
  readonly commonName: string
  /** names of the groups for Kubernetes */
  readonly organizations?: readonly string[]
}

const algorithm = { name: 'ECDSA', namedCurve: 'P-256', hash: 'SHA-256' } as const
const dayMs = 86_400_000
/** Time by which certificates are back-dated, since clocks of two machines differ. */
const skewMs = 300_000

/** A certificate authority in memory; only its certificates are ever written to files. */
export class Authority {
  /** PEM, for clients' trust */
  readonly certificate: string
  readonly #x509: Awaited<ReturnType<typeof loadX509>>
  readonly #keys: webcrypto.CryptoKeyPair
  readonly #subject: string
  readonly #lifeMs: number

  private constructor(init: {
    x509: Awaited<ReturnType<typeof loadX509>>
    keys: webcrypto.CryptoKeyPair
    subject: string
    certificate: string
    lifeMs: number
  }) {
    this.#x509 = init.x509
    this.#keys = init.keys
    this.#subject = init.subject
    this.#lifeMs = init.lifeMs
    this.certificate = init.certificate
  }

  /** @param options.lifeMs - validity of the authority and of its certificates; default: 30 days */
  static async create(commonName: string, options: { lifeMs?: number } = {}): Promise<Authority> {
    const x509 = await loadX509()
    const keys = await generateKeys()
    const lifeMs = options.lifeMs ?? 30 * dayMs
    const subject = new x509.Name([{ CN: [commonName] }]).toString()
    const certificate = await x509.X509CertificateGenerator.createSelfSigned({
      serialNumber: serialNumber(),
      name: subject,
      ...validity(lifeMs),
      signingAlgorithm: algorithm,
      keys,
      extensions: [
        new x509.BasicConstraintsExtension(true, 0, true),
        new x509.KeyUsagesExtension(x509.KeyUsageFlags.keyCertSign | x509.KeyUsageFlags.cRLSign, true),
        await x509.SubjectKeyIdentifierExtension.create(keys.publicKey),
      ],
    })
    return new Authority({ x509, keys, subject, certificate: `${certificate.toString('pem')}\n`, lifeMs })
  }

  /** Issues a certificate for a server with all of `names`. */
  async issueServing(names: ServingNames): Promise<Pem> {
    const { SubjectAlternativeNameExtension, ExtendedKeyUsage } = this.#x509
    return this.#issue([{ CN: [names.dns[0] ?? names.ip[0] ?? 'server'] }], ExtendedKeyUsage.serverAuth, [
      new SubjectAlternativeNameExtension([
        ...names.dns.map((value) => ({ type: 'dns' as const, value })),
        ...names.ip.map((value) => ({ type: 'ip' as const, value })),
      ]),
    ])
  }

  /** Issues a certificate that identifies a client. */
  async issueClient(name: ClientName): Promise<Pem> {
    const organizations = (name.organizations ?? []).map((value) => ({ O: [value] }))
    return this.#issue([{ CN: [name.commonName] }, ...organizations], this.#x509.ExtendedKeyUsage.clientAuth, [])
  }

  async #issue(name: Record<string, string[]>[], usage: string, extensions: Extension[]): Promise<Pem> {
    const x509 = this.#x509
    const keys = await generateKeys()
    const certificate = await x509.X509CertificateGenerator.create({
      serialNumber: serialNumber(),
      subject: new x509.Name(name).toString(),
      issuer: this.#subject,
      ...validity(this.#lifeMs),
      signingAlgorithm: algorithm,
      publicKey: keys.publicKey,
      signingKey: this.#keys.privateKey,
      extensions: [
        new x509.BasicConstraintsExtension(false, undefined, true),
        new x509.KeyUsagesExtension(x509.KeyUsageFlags.digitalSignature, true),
        new x509.ExtendedKeyUsageExtension([usage]),
        await x509.AuthorityKeyIdentifierExtension.create(this.#keys.publicKey),
        ...extensions,
      ],
    })
    return { certificate: `${certificate.toString('pem')}\n`, key: await exportKey(keys.privateKey) }
  }
}

async function generateKeys(): Promise<webcrypto.CryptoKeyPair> {
  return webcrypto.subtle.generateKey(algorithm, true, ['sign', 'verify'])
}

function validity(lifeMs: number) {
  const now = Date.now()
  return { notBefore: new Date(now - skewMs), notAfter: new Date(now + lifeMs) }
}

/** Returns a positive number of 16 bytes (RFC 5280 4.1.2.2), as hex. */
function serialNumber(): string {
  const bytes = randomBytes(16)
  bytes[0] = ((bytes[0] ?? 0) & 0x7f) | 0x40
  return bytes.toString('hex')
}

async function exportKey(key: webcrypto.CryptoKey): Promise<string> {
  const der = Buffer.from(await webcrypto.subtle.exportKey('pkcs8', key)).toString('base64')
  return `-----BEGIN PRIVATE KEY-----\n${der.match(/.{1,64}/g)?.join('\n')}\n-----END PRIVATE KEY-----\n`
}
