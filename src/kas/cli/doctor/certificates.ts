import { X509Certificate } from 'node:crypto'
import { readFile } from 'node:fs/promises'
import { createSecureContext } from 'node:tls'
import { fileProblem } from '../../../lib/file-problem.ts'
import { type CheckResult, type Finding, problemFindings } from '../../../lib/findings.ts'
import { readAuthorities } from '../../../lib/trusted-authorities.ts'
import {
  type ClearAddress,
  clearAddressAdvice,
  clearAddresses,
  clearAddressText,
} from '../../config/clear-addresses.ts'
import type { KasConfig } from '../../config/kas-schema.ts'
import { type FileCheck, findingsOfFiles } from './file-check.ts'

const dayMs = 86_400_000
/** Days before its end from which a certificate is reported. */
const fewDays = 14

/**
 * Checks certificates of kas' own servers, files of authorities, and addresses without TLS.
 *
 * @param now - ms since 1970
 */
export async function checkCertificates(config: KasConfig, now: number): Promise<Finding[]> {
  const found = await findingsOfFiles([...certificateChecks(config, now), ...authorityChecks(config)])
  const named: Finding[] =
    found.length > 0 ? found : [{ check: 'certificates', state: 'skipped', text: 'no certificate is named' }]
  return [
    ...named,
    ...clearAddresses(config)
      .filter(({ isSecret }) => isSecret)
      .map(clearFinding),
  ]
}

function clearFinding(one: ClearAddress): Finding {
  const text = clearAddressText(one)
  return { check: 'certificates', state: 'note', subject: one.key, text, advice: clearAddressAdvice }
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
    const check = async (): Promise<Finding[]> => [
      { check: 'certificates', subject: key, ...(await checkPair(certificateFile, keyFile, now)) },
    ]
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
    file === undefined ? [] : [{ key, files: [[key, file] as const], check: () => checkAuthority(key, file) }],
  )
}

const failed = (text: string, advice: string): CheckResult => ({ state: 'failed', text, advice })

async function checkPair(certificateFile: string, keyFile: string, now: number): Promise<CheckResult> {
  let pem: string
  let chain: X509Certificate[]
  try {
    const [cert, key] = await Promise.all([readFile(certificateFile, 'utf8'), readFile(keyFile, 'utf8')])
    createSecureContext({ cert, key })
    pem = cert
    chain = certificatesIn(pem)
  } catch (error) {
    return failed(
      `${certificateFile} with key ${keyFile}: ${problemOf(error)}`,
      'name the pair, in PEM, which kas may read',
    )
  }
  const [leaf] = chain
  if (!leaf) return failed(`${certificateFile}: found no certificate`, 'write the certificate there, in PEM')
  const broken = chain.findIndex((one, i) => i > 0 && !isSigned(chain[i - 1], one))
  if (broken > 0) {
    const before = chain[broken - 1]
    const text = `${certificateFile}: behind ${nameOf(before?.subject)} stands ${nameOf(chain[broken]?.subject)}, which did not sign it`
    return failed(
      text,
      `put the certificate of ${nameOf(before?.issuer)} there: the chain goes from the server's own upwards`,
    )
  }
  return datesOf(certificateFile, chain, now)
}

function datesOf(file: string, chain: readonly X509Certificate[], now: number): CheckResult {
  for (const { subject, validFrom, validTo } of chain) {
    if (now < Date.parse(validFrom))
      return failed(`${file}: ${nameOf(subject)} begins at ${validFrom}`, 'compare the clock of this machine with it')
    if (now > Date.parse(validTo)) return failed(`${file}: ${nameOf(subject)} has ended at ${validTo}`, 'renew it')
  }
  const days = Math.floor(Math.min(...chain.map(({ validTo }) => Date.parse(validTo) - now)) / dayMs)
  const top = chain.at(-1)
  const isWhole = top?.issuer === top?.subject
  const end = isWhole ? `is signed by itself` : `is signed by ${nameOf(top?.issuer)}, which callers have to trust`
  const text = `${file}: ${days} days are left; ${chain.length} of a chain, whose last ${end}`
  return days < fewDays ? { state: 'note', text, advice: 'renew it' } : { state: 'ok', text }
}

/** True if `by` signed the certificate. Names are not enough: a renewed authority has the name of the old one. */
const isSigned = (one: X509Certificate | undefined, by: X509Certificate) =>
  one?.checkIssued(by) === true && one.verify(by.publicKey)

const certificatesIn = (pem: string) =>
  (pem.match(/-----BEGIN CERTIFICATE-----[^-]*-----END CERTIFICATE-----/g) ?? []).map((one) => new X509Certificate(one))

const nameOf = (distinguished = '') => `"${distinguished.replaceAll('\n', ', ')}"`

function problemOf(error: unknown): string {
  const { code } = error as { code?: unknown }
  if (code === 'ERR_OSSL_X509_KEY_VALUES_MISMATCH') return 'it is the key of another certificate'
  return fileProblem(error)
}

async function checkAuthority(key: string, file: string): Promise<Finding[]> {
  try {
    await readAuthorities(file, key)
    const text = `${file} holds certificates that can be read; their dates are not checked`
    return [{ check: 'certificates', state: 'ok', subject: key, text }]
  } catch (error) {
    const advice = 'write the certificate of the authority there, in PEM'
    return problemFindings('certificates', error).map((one) => ({ ...one, advice }))
  }
}
