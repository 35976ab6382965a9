import { readFileSync } from 'node:fs'
import { createSecureContext, getCACertificates, type SecureContext } from 'node:tls'
import { tlsFault } from '../../lib/tls-fault.ts'

/** for the contents of a file of authorities: parsing them takes longer than a handshake */
let kept: { readonly own: string | undefined; readonly few: SecureContext; all?: SecureContext } | undefined

/**
 * Whom a connection to kas trusts: the authorities that the file holds now, without a file those that Node has. Once a
 * certificate was refused, `all` of them.
 */
export function trusted(caFile: string | undefined): SecureContext {
  const own = caFile ? readFileSync(caFile, 'utf8') : undefined
  if (!kept || kept.own !== own) kept = { own, few: createSecureContext(own === undefined ? {} : { ca: own }) }
  return kept.all ?? kept.few
}

/**
 * After a connection that failed: as Go, the system's authorities (SSL_CERT_FILE and SSL_CERT_DIR included) and the
 * file's. They are hundreds, which take 5 MiB and 100 ms, so that they come last.
 *
 * @param refused - what the connection trusted
 * @returns undefined if it trusted all of them, or failed of something else
 */
export function allTrusted(refused: SecureContext, error: unknown): SecureContext | undefined {
  const fault = tlsFault((error as NodeJS.ErrnoException).code)
  if (!kept || refused === kept.all || (fault !== 'untrusted' && fault !== 'dates')) return undefined
  kept.all ??= createSecureContext({ ca: [...systemAuthorities(), ...(kept.own === undefined ? [] : [kept.own])] })
  return kept.all
}

function systemAuthorities(): ReadonlySet<string> {
  return new Set([...getCACertificates('default'), ...getCACertificates('system')])
}
