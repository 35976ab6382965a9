import { X509Certificate } from 'node:crypto'
import { readFile } from 'node:fs/promises'
import * as tls from 'node:tls'
import { KasError } from './errors.ts'
import { fileProblem } from './file-problem.ts'

/**
 * Trusts what Node and the system trust (packages name theirs by SSL_CERT_DIR), and the file's. It takes a while: to be
 * kept, and made only if something is to be reached by TLS.
 *
 * @param key - the configuration key that names the file, for errors
 * @throws KasError SETTINGS_INVALID if the file cannot be used
 */
export async function trustedContext(caCertificateFile: string | undefined, key: string): Promise<tls.SecureContext> {
  const own = caCertificateFile === undefined ? [] : [await readAuthorities(caCertificateFile, key)]
  // Node and the system name nearly the same ones: each costs, once is enough
  return tls.createSecureContext({ ca: [...new Set([...authorities('default'), ...authorities('system'), ...own])] })
}

/**
 * The certificates of the file, as PEM: whether it can be used, without what takes a while.
 *
 * @throws KasError SETTINGS_INVALID if it cannot
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
    for (const certificate of certificates) new X509Certificate(certificate) // TLS would overlook one that is broken
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
