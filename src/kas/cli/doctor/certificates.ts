import { X509Certificate } from 'node:crypto'
import { readFile } from 'node:fs/promises'
import { createSecureContext } from 'node:tls'
import { checkAuthority } from '../../../lib/doctor/authority-findings.ts'
import { type Found, failed } from '../../../lib/doctor/findings.ts'
import { daysLeft, fewDays, invalidDate, nameOf } from '../../../lib/doctor/served-chain.ts'
import { fileProblem } from '../../../lib/file-problem.ts'
import { clearAddressAdvice, clearAddresses, clearAddressText } from '../../config/clear-addresses.ts'
import type { KasConfig } from '../../config/kas-schema.ts'
import { type FileCheck, fileCheck, findingsOfFiles } from './file-check.ts'

/**
 * Checks certificates of kas' own servers, files of authorities, and addresses without TLS.
 *
 * @param now - ms since 1970
 */
export async function checkCertificates(config: KasConfig, now: number): Promise<Found[]> {
  const found = await findingsOfFiles([...certificateChecks(config, now), ...authorityChecks(config)])
  const clear = clearAddresses(config).filter(({ isSecret }) => isSecret)
  return [
    ...(found.length > 0 ? found : [{ state: 'skipped', text: 'no certificate is named' } as const]),
    ...clear.map((one): Found => {
      return { state: 'note', subject: one.key, text: clearAddressText(one), advice: clearAddressAdvice }
    }),
  ]
}

/**
 * Certificates of kas' own servers.
 *
 * @param now - ms since 1970
 */
export function certificateChecks({ agent, observability, api }: KasConfig, now: number): FileCheck[] {
  const pairs = {
    'agent.listen': agent.listen,
    'agent.kubernetes_api.listen': agent.kubernetes_api?.listen,
    'observability.listen': observability.listen,
    'api.listen': api.listen,
  }
  return Object.entries(pairs).flatMap(([block, listen]): FileCheck[] => {
    const { certificate_file: certificateFile, key_file: keyFile } = listen ?? {}
    if (certificateFile === undefined || keyFile === undefined) return []
    const key = `${block}.certificate_file`
    const check = async () => [{ subject: key, ...(await checkPair(certificateFile, keyFile, now)) }]
    const files = [[key, certificateFile] as const, [`${block}.key_file`, keyFile] as const]
    return [{ key, files, check }]
  })
}

/** Files of authorities that kas trusts. */
export function authorityChecks({ gitlab, directory, observability }: KasConfig): FileCheck[] {
  const authorities = {
    // not read with a directory file, where it has no effect
    'gitlab.ca_certificate_file': directory.file === undefined ? gitlab.ca_certificate_file : undefined,
    'observability.tracing.otlp_ca_certificate_file': observability.tracing?.otlp_ca_certificate_file,
  }
  return Object.entries(authorities).flatMap(([key, file]) =>
    fileCheck(key, file, (key, file) => checkAuthority('certificates', key, file)),
  )
}

async function checkPair(certificateFile: string, keyFile: string, now: number): Promise<Found> {
  let chain: X509Certificate[]
  try {
    const [cert, key] = await Promise.all([readFile(certificateFile, 'utf8'), readFile(keyFile, 'utf8')])
    createSecureContext({ cert, key })
    chain = certificatesIn(cert)
  } catch (error) {
    const text = `${certificateFile} with key ${keyFile}: ${problemOf(error)}`
    return failed(text, 'name the pair, in PEM, which kas may read')
  }
  const top = chain.at(-1)
  if (!top) return failed(`${certificateFile}: found no certificate`, 'write the certificate there, in PEM')
  const broken = chain.findIndex((one, i) => i > 0 && !isSigned(chain[i - 1], one))
  if (broken > 0) {
    const before = chain[broken - 1]
    return failed(
      `${certificateFile}: behind ${nameOf(before?.subject)} stands ${nameOf(chain[broken]?.subject)}, which did not sign it`,
      `put the certificate of ${nameOf(before?.issuer)} there: the chain goes from the server's own upwards`,
    )
  }
  const invalid = invalidDate(chain, now)
  if (invalid) {
    const advice = invalid.hasEnded ? 'renew it' : 'compare the clock of this machine with it'
    return failed(`${certificateFile}: ${invalid.text}`, advice)
  }
  const days = daysLeft(chain, now)
  const isWhole = top.issuer === top.subject
  const end = isWhole ? `is signed by itself` : `is signed by ${nameOf(top.issuer)}, which callers have to trust`
  const text = `${certificateFile}: ${days} days are left; ${chain.length} of a chain, whose last ${end}`
  return days < fewDays ? { state: 'note', text, advice: 'renew it' } : { state: 'ok', text }
}

/** True if `by` signed the certificate. Names are not enough: a renewed authority has the name of the old one. */
const isSigned = (one: X509Certificate | undefined, by: X509Certificate) =>
  one?.checkIssued(by) === true && one.verify(by.publicKey)

const certificatesIn = (pem: string) =>
  (pem.match(/-----BEGIN CERTIFICATE-----[^-]*-----END CERTIFICATE-----/g) ?? []).map((one) => new X509Certificate(one))

function problemOf(error: unknown): string {
  const { code } = error as { code?: unknown }
  if (code === 'ERR_OSSL_X509_KEY_VALUES_MISMATCH') return 'it is the key of another certificate'
  return fileProblem(error)
}
