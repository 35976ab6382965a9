import type { X509Certificate } from 'node:crypto'
import { once } from 'node:events'
import { connect as connectTcp, isIP } from 'node:net'
import { connect, type SecureContext, type TLSSocket } from 'node:tls'
import { type Found, failed } from './findings.ts'

const dayMs = 86_400_000
/** Days before its end from which a certificate is reported. */
export const fewDays = 14

/**
 * Checks the certificates that a server sends, whether this side trusts them or not: their dates, and missing issuers.
 * Names are not compared, since each real connection compares them.
 *
 * @param keep - key for the missing authority, for the advice: `gitlab.ca_certificate_file`
 * @param now - since 1970. ms
 */
export async function checkServedChain(
  asked: {
    readonly host: string
    readonly port: number
    /** name in the certificate; default: the host */
    readonly serverName?: string | undefined
    readonly secureContext: SecureContext
    readonly ALPNProtocols?: string[]
  },
  { keep, now, timeoutMs }: { readonly keep: string; readonly now: number; readonly timeoutMs: number },
): Promise<Found> {
  const { host, port, serverName = host, secureContext, ALPNProtocols } = asked
  const signal = AbortSignal.timeout(timeoutMs)
  const socket = connectTcp({ host, port })
  let tls: TLSSocket | undefined
  try {
    await once(socket, 'connect', { signal })
    const named = isIP(serverName) ? { host: serverName } : { servername: serverName }
    tls = connect({
      socket,
      ...named,
      secureContext,
      rejectUnauthorized: false,
      ...(ALPNProtocols && { ALPNProtocols }),
    })
    await once(tls, 'secureConnect', { signal })
    const reason = String(tls.authorizationError ?? '')
    const isTrusted = tls.authorized || reason === 'ERR_TLS_CERT_ALTNAME_INVALID' // names are compared last
    return resultOf(chainOf(tls), { isTrusted, reason, keep, now })
  } catch {
    return { state: 'skipped', text: 'no connection with TLS: no certificate is seen' }
  } finally {
    tls?.destroy()
    socket.destroy()
  }
}

function chainOf(tls: TLSSocket): X509Certificate[] {
  const chain: X509Certificate[] = []
  for (let one = tls.getPeerX509Certificate(); one; one = one.issuerCertificate) {
    if (chain.some(({ fingerprint256 }) => fingerprint256 === one?.fingerprint256)) break
    chain.push(one)
  }
  return chain
}

interface ReceivedChain {
  readonly isTrusted: boolean
  /** OpenSSL's code, if the chain is not trusted */
  readonly reason: string
  readonly keep: string
  readonly now: number
}

const missing: ReadonlySet<string> = new Set([
  'UNABLE_TO_GET_ISSUER_CERT',
  'UNABLE_TO_GET_ISSUER_CERT_LOCALLY',
  'UNABLE_TO_VERIFY_LEAF_SIGNATURE',
  'SELF_SIGNED_CERT_IN_CHAIN',
  'DEPTH_ZERO_SELF_SIGNED_CERT',
])

function resultOf(chain: readonly X509Certificate[], { isTrusted, reason, keep, now }: ReceivedChain): Found {
  const top = chain.at(-1)
  if (!top) return { state: 'skipped', text: 'the server has sent no certificate' }
  if (isTrusted) {
    const days = daysLeft(chain, now)
    const text = `${days} days are left of what the server sends, up to ${nameOf(top.issuer)}`
    return days < fewDays ? { state: 'note', text, advice: 'renew it there' } : { state: 'ok', text }
  }
  const invalid = invalidDate(chain, now)
  if (invalid) {
    return failed(invalid.text, invalid.hasEnded ? 'renew it there' : 'compare the clocks of both machines with it')
  }
  if (!missing.has(reason)) {
    return failed(`what the server sends is not trusted here: ${reason}`, `check it, and ${keep}`)
  }
  return failed(
    `the server sends ${chain.length} of a chain, and ${nameOf(top.issuer)}, by which the last is signed, is not trusted here`,
    `put the certificate of that authority into ${keep}; if it is an intermediate one, into the chain that the server sends`,
  )
}

/** The first date of a chain that is violated, as a sentence; undefined: all certificates are valid. */
export function invalidDate(
  chain: readonly X509Certificate[],
  now: number,
): { readonly text: string; readonly hasEnded: boolean } | undefined {
  for (const { subject, validFrom, validTo } of chain) {
    if (now < Date.parse(validFrom)) return { text: `${nameOf(subject)} begins at ${validFrom}`, hasEnded: false }
    if (now > Date.parse(validTo)) return { text: `${nameOf(subject)} has ended at ${validTo}`, hasEnded: true }
  }
  return undefined
}

/** Returns whole days until the first certificate of a chain ends. */
export function daysLeft(chain: readonly X509Certificate[], now: number): number {
  return Math.floor(Math.min(...chain.map(({ validTo }) => Date.parse(validTo) - now)) / dayMs)
}

/** Returns a distinguished name of a certificate on one line. */
export const nameOf = (distinguished = '') => `"${distinguished.replaceAll('\n', ', ')}"`
