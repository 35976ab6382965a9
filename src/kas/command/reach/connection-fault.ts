import { connect } from 'node:tls'
import { printable } from '../../../lib/printable.ts'
import { tlsFault, withoutNodeAdvice } from '../../../lib/tls-fault.ts'
import { type Place, placeText, Unreached } from './unreached.ts'

/** Bound of a probe: a TLS server begins to answer at once. ms */
const probeMs = 1000

/**
 * Classifies the failure of a connection, or of the first bytes on it.
 *
 * @param error - error of a socket, of Node's TLS or of its HTTP parser
 */
export async function connectionFault(error: Error, place: Place): Promise<Unreached> {
  const given = firstCause(error)
  const fault = addressFault(given, place) ?? tlsProblem(given, place)
  if (fault) return fault
  const { url } = place
  if (url.protocol === 'http:' && isOtherProtocol(given) && (await speaksTls(url))) {
    const text = `TLS is spoken at ${placeText(place)}, and the address begins with http://: write https://`
    return new Unreached('scheme', text, { cause: error })
  }
  if (isNoHttp(given)) {
    const text = `what answers at ${placeText(place)} does not speak HTTP: ${reasonOf(given)}. Is the port that of kas for kubectl (8154)?`
    return new Unreached('server', text, { cause: error })
  }
  return new Unreached('silent', `the connection to ${placeText(place)} was lost: ${reasonOf(given)}`, { cause: error })
}

type NodeError = NodeJS.ErrnoException

/**
 * Returns the first cause. A host with several addresses fails with a list, in which a refused connection counts first.
 */
function firstCause(error: Error): NodeError {
  if (!(error instanceof AggregateError)) return error
  const all = error.errors as readonly NodeError[]
  return all.find(({ code }) => code === 'ECONNREFUSED') ?? all[0] ?? error
}

function addressFault(error: NodeError, place: Place): Unreached | undefined {
  const { code } = error
  const proxy = place.proxy === undefined ? '' : `. ${place.proxy} is set: the commands of kas do not use a proxy`
  const fault = (kind: 'port' | 'name' | 'route', text: string) =>
    new Unreached(kind, `${text}${proxy}`, { cause: error })
  switch (code) {
    case 'ECONNREFUSED':
      return fault('port', `nobody listens at ${placeText(place)}: does kas run, or the port-forward to it?`)
    case 'ENOTFOUND':
    case 'EAI_AGAIN':
    case 'EAI_FAIL':
    case 'EAI_NODATA':
    case 'EAI_NONAME':
      return fault('name', `no host is called ${hostText(place)}: check the address, and the DNS of this machine`)
    case 'EHOSTUNREACH':
    case 'ENETUNREACH':
    case 'ENETDOWN':
    case 'EHOSTDOWN':
    case 'EADDRNOTAVAIL':
    case 'EACCES':
    case 'EPERM':
      return fault('route', `no way leads to ${placeText(place)} (${code}): check the address, routes and firewalls`)
    default:
      return undefined
  }
}

function hostText({ url, named }: Place): string {
  return named === '' ? url.hostname : `${url.hostname} (${named})`
}

function tlsProblem(error: NodeError, place: Place): Unreached | undefined {
  const { code = '' } = error
  const where = placeText(place)
  const fault = (text: string) => new Unreached('tls', `${text}: ${reasonOf(error)}`, { cause: error })
  switch (tlsFault(code)) {
    case 'untrusted':
      return fault(
        `the authority of the certificate at ${where} is not trusted. Name it: certificate-authority of the kubeconfig, or kas kubeconfig --ca FILE`,
      )
    case 'name':
      return fault(`the certificate at ${where} is for another name. Use a name that it has, or tls-server-name`)
    case 'dates':
      return fault(`the certificate at ${where} is not valid now. Compare its dates with the clock of this machine`)
    case 'no TLS':
      if (isAlert(error)) return fault(`the server at ${where} refuses this TLS connection`)
      return new Unreached(
        'scheme',
        `no TLS is spoken at ${where}, and the address begins with https://: is it http://, or another port?`,
        { cause: error },
      )
    default:
  }
  if (code.startsWith('ERR_OSSL_'))
    return fault(`the authority for ${place.named || where} cannot be read: it has to be a certificate in PEM`)
  return code.startsWith('ERR_SSL_') || code.startsWith('ERR_TLS_') || code === 'HOSTNAME_MISMATCH'
    ? fault(`the server at ${where} refuses this TLS connection`)
    : undefined
}

/** True for an alert of the server, which OpenSSL reports under the same code as a missing TLS. */
function isAlert({ message }: NodeError): boolean {
  return /alert/i.test(message)
}

/** True if HTTP may have reached a TLS server, which answers with an alert, or closes. */
function isOtherProtocol(error: NodeError): boolean {
  return isNoHttp(error) || ['ECONNRESET', 'EPIPE', 'ECONNABORTED'].includes(error.code ?? '')
}

function isNoHttp({ code = '' }: NodeError): boolean {
  return code.startsWith('HPE_')
}

/** True if a TLS handshake completes there, with any certificate. */
function speaksTls({ hostname, port }: URL): Promise<boolean> {
  const { promise, resolve } = Promise.withResolvers<boolean>()
  const host = hostname.replace(/^\[|\]$/g, '')
  const socket = connect({ host, port: Number(port) || 80, rejectUnauthorized: false })
  socket.setTimeout(probeMs, () => resolve(false))
  socket.once('secureConnect', () => resolve(true))
  socket.once('error', () => resolve(false))
  socket.once('close', () => resolve(false))
  return promise.finally(() => socket.destroy())
}

function reasonOf({ message, code, name }: NodeError): string {
  return printable(withoutNodeAdvice((message || code || name).replace(/^[0-9A-F]+:error:/, '').trim()))
}
