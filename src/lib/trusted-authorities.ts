import { X509Certificate } from 'node:crypto'
import { readFile } from 'node:fs/promises'
import * as tls from 'node:tls'
import { KasError } from './errors.ts'
import { fileProblem } from './file-problem.ts'

/**
 * Returns a context that trusts the authorities of Node, of the system (packages name theirs by SSL_CERT_DIR) and of
 * the file. It takes a while: callers keep it, and make it only if they connect by TLS.
 *
 * @param key - the configuration key that names the file, for errors
 * @throws KasError SETTINGS_INVALID if the file cannot be used
 */
export async function trustedContext(caCertificateFile: string | undefined, key: string): Promise<tls.SecureContext> {
  const own = caCertificateFile === undefined ? [] : [await readAuthorities(caCertificateFile, key)]
  // Node and the system name nearly the same authorities, and each copy costs time
  return tls.createSecureContext({ ca: [...new Set([...authorities('default'), ...authorities('system'), ...own])] })
}

/**
 * Returns the certificates of the file, as PEM, and checks that they can be read. It is fast, unlike `trustedContext`.
 *
 * @throws KasError SETTINGS_INVALID if the file cannot be used
 */
export async function readAuthorities(file: string, key: string): Promise<string> {
  const invalid = (problem: string, cause?: unknown) => {
    const problems = [`${key}: ${problem}`]
    return new KasError({ code: 'SETTINGS_INVALID', file, problems }, { cause })
  }
  let pem: string
  try {
    pem = await readFile(file, 'utf8')
  } catch (error) {
    throw invalid(`cannot be read: ${fileProblem(error)}`, error)
  }
  const certificates = pem.match(/-----BEGIN CERTIFICATE-----[^-]*-----END CERTIFICATE-----/g)
  if (!certificates) throw invalid('found no certificate, allowed: PEM')
  try {
    for (const certificate of certificates) new X509Certificate(certificate) // TLS would overlook a broken one
    return pem
  } catch (error) {
    throw invalid(`cannot be used: ${(error as Error).message}`, error)
  }
}

function authorities(of: 'default' | 'system'): readonly string[] {
  const { getCACertificates } = tls as Partial<Pick<typeof tls, 'getCACertificates'>>
  if (getCACertificates) return getCACertificates(of)
  return of === 'default' ? tls.rootCertificates : []
}
