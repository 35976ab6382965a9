import { constants } from 'node:crypto'
import type { ServerOptions as HttpOptions, Server as HttpServer } from 'node:http'
import { createServer as createHttps } from 'node:https'
import { createServer as createTls, type TlsOptions, type Server as TlsServer } from 'node:tls'
import type { CertificateFiles } from './certificate-files.ts'

/**
 * Options of each context, also of the contexts for later certificates. Without them a client of TLS 1.2 could ask for
 * endless handshakes on one connection, which take no turn of the handshakes. Node reports that and goes on.
 */
const contextOptions = {
  minVersion: 'TLSv1.2',
  secureOptions: constants.SSL_OP_NO_RENEGOTIATION,
} as const satisfies TlsOptions

/** Certificate and key in PEM, for a server whose certificate never changes. */
export interface KeyPair {
  readonly cert: string
  readonly key: string
}

/** Makes a server that speaks TLS. All servers of kas and agentk are made in this file (`test/ground/tls.test.ts`). */
export function createTlsServer(options: TlsOptions, certificate: CertificateFiles | KeyPair): TlsServer {
  return withCertificate(certificate, (context) => createTls({ ...context, ...options }))
}

/** Makes a server that speaks HTTP/1.1 over TLS. */
export function createHttpsServer(options: HttpOptions & TlsOptions, certificate: CertificateFiles): HttpServer {
  return withCertificate(certificate, (context) => createHttps({ ...context, ...options }))
}

/** Creates a server that takes each new pair of the files. */
function withCertificate<Server extends Pick<TlsServer, 'setSecureContext'>>(
  certificate: CertificateFiles | KeyPair,
  create: (context: TlsOptions) => Server,
): Server {
  if ('cert' in certificate) return create({ ...contextOptions, ...certificate })
  const server = create({ ...contextOptions, ...certificate.current })
  certificate.onChange((next) => server.setSecureContext({ ...contextOptions, ...next }))
  return server
}
