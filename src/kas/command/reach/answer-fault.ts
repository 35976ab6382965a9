import type { IncomingHttpHeaders } from 'node:http'
import { printable } from '../../../lib/printable.ts'
import { type Place, placeText, Unreached } from './unreached.ts'

/** An answer that is not what the command asked for. */
export interface FaultyAnswer {
  readonly status: number
  readonly headers: IncomingHttpHeaders
  /** its first characters are enough */
  readonly body: string
}

/** bound of quoted text from a proxy in front of kas, in characters */
const maxForeignText = 160
/** bound of a quoted `Status`, in characters */
const maxMessage = 1000
/** beginning of kas' own errors */
const ofKas = 'GitLab Agent Server: '
/** beginning of a refusal that says itself why, and what to set */
const reasonPrefix = `${ofKas}forbidden: `

/**
 * Classifies an answer to a request that kas itself answers.
 *
 * @returns undefined: it is from kas, and is no fault
 */
export function answerFault(answer: FaultyAnswer, place: Place): Unreached | undefined {
  const message = statusMessage(answer.body)
  if (message?.startsWith(ofKas) || answer.headers['kas-delivery'] !== undefined)
    return kasFault(answer.status, message ?? '', place)
  return schemeFault(answer, place) ?? foreignFault(answer, place)
}

/**
 * Reads the message of a `Status` of Kubernetes, the form of kas' errors.
 *
 * @returns undefined: it is no `Status`
 */
export function statusMessage(body: string): string | undefined {
  try {
    const { message } = Object(JSON.parse(body)) as { message?: unknown }
    return typeof message === 'string' ? message.slice(0, maxMessage) : undefined
  } catch {
    return undefined // no JSON, so not from kas
  }
}

function kasFault(status: number, message: string, place: Place): Unreached | undefined {
  const quoted = `kas answered ${status}: ${printable(message)}`
  if (message.includes('URL does not start with expected prefix')) {
    const text = `kas answers at ${placeText(place)}, but not below ${place.url.pathname}: let the server end with its url_path_prefix (/k8s-proxy/ by default)`
    return new Unreached('server', `${text}. ${quoted}`, { status })
  }
  if (status === 401) {
    const text = `kas at ${placeText(place)} does not know the token: it has ended, was withdrawn or is another kas's. kas kubeconfig makes one`
    return new Unreached('caller', `${text}. ${quoted}`, { status })
  }
  if (status === 403 && !message.startsWith(reasonPrefix)) {
    const text = `kas at ${placeText(place)} does not let you in: user_access or ci_access in the agent's config.yaml says who may`
    return new Unreached('caller', `${text}. ${quoted}`, { status })
  }
  return status === 503 && message.includes('shutting down')
    ? new Unreached('away', `kas at ${placeText(place)} is stopping. ${quoted}`, { status })
    : undefined
}

/** Finds text of web servers that got HTTP at a port for HTTPS. */
function schemeFault({ status, body }: FaultyAnswer, place: Place): Unreached | undefined {
  if (place.url.protocol !== 'http:' || status < 400) return undefined
  if (!/HTTP request (?:was sent )?to (?:an )?HTTPS|speaking plain HTTP to an SSL/i.test(body)) return undefined
  return new Unreached(
    'scheme',
    `TLS is spoken at ${placeText(place)}, and the address begins with http://: write https://`,
  )
}

function foreignFault(answer: FaultyAnswer, place: Place): Unreached {
  const { status, headers } = answer
  const where = placeText(place)
  const program = headers.server ? ` (${printable(String(headers.server).slice(0, maxForeignText))})` : ''
  const quoted = `${status}${program}${wordsOf(answer.body)}`
  if (isApiServer(answer)) {
    const text =
      status === 401
        ? `a Kubernetes API server answers at ${where}, not kas: the address is that of a cluster itself`
        : `a Kubernetes API server answers at ${where}: its address is given in place of that of kas, or GitLab's own kas passes the question on to it`
    return new Unreached('server', `${text}. kas kubeconfig makes a kubeconfig for kas. It answered ${quoted}`)
  }
  if (status >= 300 && status < 400) {
    const to = headers.location ? ` to ${printable(headers.location.slice(0, maxForeignText))}` : ''
    const text = `what answers at ${where} leads elsewhere${to}: give the address of kas itself, with https://`
    return new Unreached('server', `${text}. It answered ${quoted}`)
  }
  if (status === 502 || status === 503 || status === 504) {
    const text = `what stands in front of kas at ${where} does not reach it: does kas run?`
    return new Unreached('away', `${text} It answered ${quoted}`)
  }
  if (status === 407) {
    return new Unreached(
      'server',
      `a proxy answers at ${where}, and asks for a login of its own: it answered ${quoted}`,
    )
  }
  if (status === 413) {
    const text = `a proxy in front of kas at ${where} takes no body of this length: raise its limit (nginx: client_max_body_size)`
    return new Unreached('server', `${text}. It answered ${quoted}`, { status })
  }
  if (status === 401 || status === 403) {
    const text = `what answers at ${where} is not kas, and asks for a login of its own: let it pass requests with a token on to kas`
    return new Unreached('server', `${text}. It answered ${quoted}`)
  }
  if (status === 200 || status === 426) {
    const text = `what answers at ${where} is not kas, or does not pass Upgrade: websocket on to it`
    return new Unreached('server', `${text}. It answered ${quoted}`)
  }
  const text = `what answers at ${where} is not kas, or GitLab's own kas, which does not have this path: is it the address of kas for kubectl (8154)?`
  return new Unreached('server', `${text} It answered ${quoted}`)
}

/**
 * True for an answer of an API server: its errors are a `Status` too, and its answers have an `Audit-Id` or its flow
 * schema.
 */
function isApiServer({ headers, body }: FaultyAnswer): boolean {
  if (headers['audit-id'] !== undefined || headers['x-kubernetes-pf-flowschema-uid'] !== undefined) return true
  return /"kind":\s*"Status"/.test(body) && /"apiVersion":\s*"v1"/.test(body)
}

function wordsOf(body: string): string {
  const message = statusMessage(body)
  const text = message ?? (/^\s*</.test(body) ? (/<title>([^<]*)/i.exec(body)?.[1] ?? '') : body)
  const words = printable(text.trim().split('\n')[0]?.slice(0, maxForeignText) ?? '')
  return words === '' ? '' : `: ${words}`
}
