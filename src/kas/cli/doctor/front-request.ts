import { randomUUID } from 'node:crypto'
import { once } from 'node:events'
import { type IncomingMessage, request as plainRequest } from 'node:http'
import { request as tlsRequest } from 'node:https'
import type { SecureContext } from 'node:tls'
import { WebSocket } from 'ws'
import { abortable } from '../../../lib/signals.ts'
import {
  type FrontCheckAnswer,
  frontCheckPath,
  frontCheckProtocol,
  frontCheckScheme,
} from '../../servers/front-check-answer.ts'

/** Address of kas for kubectl. */
export interface FrontPlace {
  readonly url: URL
  readonly secureContext: SecureContext | undefined
  /** id of a replica, by which kas lets this doctor in; undefined: no replica was asked, and kas refuses it */
  readonly instance: string | undefined
}

export interface FrontAnswer {
  readonly status: number
  readonly location: string | undefined
  /** answer of kas; undefined: kas refuses the request, or another program answers */
  readonly kas: FrontCheckAnswer | undefined
  /** message of kas' own error; undefined: the answer is no such error */
  readonly refusal: string | undefined
}

export interface FrontQuestion {
  readonly headers?: Readonly<Record<string, string>>
  /** length of the body, which is sent by POST; default: none */
  readonly bodyBytes?: number
  readonly signal: AbortSignal
}

/** Bound above any answer of kas, in characters. */
const maxAnswer = 64 * 1024
/** Bound above any message on the WebSocket. */
const maxMessageBytes = 1024

/**
 * Makes a URL as kubectl does: the path of its server, without a slash at its end, then that of the request. Each URL
 * is new, so that no cache of the front answers.
 */
function targetOf(url: URL): URL {
  const target = new URL(url)
  target.pathname = `${url.pathname.replace(/\/+$/, '')}${frontCheckPath}`
  target.search = randomUUID()
  return target
}

/** A doctor without the id of a replica sends an Authorization header too: the refusal shows if the header arrives. */
function headersOf({ instance = 'unknown' }: FrontPlace): Record<string, string> {
  return { Authorization: `${frontCheckScheme}${instance}`, 'User-Agent': 'kas-doctor' }
}

/** @throws the error of the connection, or the reason of the signal */
export async function askFront(place: FrontPlace, { headers, bodyBytes, signal }: FrontQuestion): Promise<FrontAnswer> {
  const { url, secureContext } = place
  const options = {
    method: bodyBytes === undefined ? 'GET' : 'POST',
    headers: { ...headersOf(place), Accept: 'application/json', ...headers },
    agent: false,
    signal,
  } as const
  const target = targetOf(url)
  const asked =
    url.protocol === 'https:'
      ? tlsRequest(target, { ...options, ...(secureContext && { secureContext }) })
      : plainRequest(target, options)
  asked.on('error', () => undefined) // if a body is refused while it is sent, the answer is the better reason
  asked.end(bodyBytes === undefined ? undefined : Buffer.alloc(bodyBytes))
  try {
    const [answer] = (await once(asked, 'response', { signal })) as [IncomingMessage]
    const { statusCode: status = 0 } = answer
    const body = await jsonOf(answer)
    const kas = status === 200 && isAnswer(body) ? body : undefined
    return { status, location: answer.headers.location, kas, refusal: refusalIn(body) }
  } finally {
    asked.destroy()
  }
}

/** @returns undefined: the body is no JSON, or too long */
async function jsonOf(answer: IncomingMessage): Promise<unknown> {
  let text = ''
  for await (const chunk of answer.setEncoding('utf8') as AsyncIterable<string>) {
    text += chunk
    if (text.length > maxAnswer) return undefined
  }
  try {
    return JSON.parse(text)
  } catch {
    return undefined
  }
}

/** Checks each member, because any program may answer. */
function isAnswer(body: unknown): body is FrontCheckAnswer {
  const { client, sender, isTrusted, isForwarded, bytes } = (body ?? {}) as Partial<Record<string, unknown>>
  const areAddresses = [client, sender].every((one) => one === undefined || typeof one === 'string')
  return areAddresses && [isTrusted, isForwarded].every((one) => typeof one === 'boolean') && typeof bytes === 'number'
}

function refusalIn(body: unknown): string | undefined {
  const { message } = (body ?? {}) as { message?: unknown }
  return typeof message === 'string' && message.startsWith('GitLab Agent Server: ') ? message : undefined
}

/**
 * Asks for a WebSocket, as exec, attach and port-forward do. The caller closes it.
 *
 * @returns a number: the status of another answer
 * @throws the error of the connection, or the reason of the signal
 */
export async function openFront(place: FrontPlace, signal: AbortSignal): Promise<WebSocket | number> {
  const { url, secureContext } = place
  const options = {
    headers: headersOf(place),
    perMessageDeflate: false,
    maxPayload: maxMessageBytes,
    ...(secureContext && { secureContext }),
  }
  const socket = new WebSocket(targetOf(url), [frontCheckProtocol], options)
  const { promise, resolve, reject } = Promise.withResolvers<WebSocket | number>()
  socket.on('open', () => resolve(socket))
  socket.on('unexpected-response', (_, answer) => resolve(answer.statusCode ?? 0))
  socket.on('error', reject) // an error after 'open' is followed by 'close'
  try {
    return await abortable(promise, signal)
  } finally {
    if (socket.readyState !== socket.OPEN) socket.terminate()
  }
}

/**
 * Sends a message, and closes the WebSocket.
 *
 * @returns true: the message came back
 * @throws the reason of the signal
 */
export async function echoes(socket: WebSocket, signal: AbortSignal): Promise<boolean> {
  if (socket.readyState !== socket.OPEN) return false
  const { promise, resolve } = Promise.withResolvers<boolean>()
  socket.once('message', (data) => resolve(String(data) === 'doctor'))
  socket.once('close', () => resolve(false))
  socket.send('doctor')
  try {
    return await abortable(promise, signal)
  } finally {
    socket.terminate()
  }
}
