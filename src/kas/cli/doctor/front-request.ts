import { once } from 'node:events'
import { type ClientRequest, type IncomingMessage, request as plainRequest } from 'node:http'
import { request as tlsRequest } from 'node:https'
import type { SecureContext } from 'node:tls'
import { WebSocket } from 'ws'
import { abortable } from '../../../lib/signals.ts'
import { frontCheckPath, frontCheckProtocol, frontTicketScheme } from '../../servers/front-tickets.ts'

/** Address of kas for kubectl, with the ticket that lets this doctor in. */
export interface FrontPlace {
  readonly url: URL
  readonly secureContext: SecureContext | undefined
  /** undefined: no replica has given one */
  readonly ticket: string | undefined
}

export interface FrontAnswer {
  readonly status: number
  readonly location: string | undefined
  /** parsed JSON; undefined: it is no JSON */
  readonly body: unknown
}

export interface FrontQuestion {
  readonly headers?: Readonly<Record<string, string>>
  /** sent by POST */
  readonly body?: Uint8Array
  readonly signal: AbortSignal
}

/** Bound above any answer of kas. */
const maxAnswerBytes = 64 * 1024
/** Bound above any message on the WebSocket. */
const maxMessageBytes = 1024

/** Request target as kubectl makes it: the path of its server, without a slash at its end, then that of the request. */
function targetOf(url: URL): string {
  return `${url.pathname.replace(/\/+$/, '')}${frontCheckPath}`
}

const authorizationOf = ({ ticket }: FrontPlace) =>
  ticket === undefined ? {} : { Authorization: `${frontTicketScheme}${ticket}` }

/** @throws the error of the connection, or the reason of the signal */
export async function askFront(place: FrontPlace, { headers = {}, body, signal }: FrontQuestion): Promise<FrontAnswer> {
  const { url, secureContext } = place
  const options = {
    host: url.hostname.replace(/^\[|\]$/g, ''),
    port: url.port || undefined,
    path: targetOf(url),
    method: body ? 'POST' : 'GET',
    headers: {
      ...authorizationOf(place),
      Accept: 'application/json',
      'User-Agent': 'kas-doctor',
      ...(body && { 'Content-Length': String(body.length) }),
      ...headers,
    },
    agent: false,
    signal,
  } as const
  const asked: ClientRequest =
    url.protocol === 'https:'
      ? tlsRequest({ ...options, ...(secureContext && { secureContext }) })
      : plainRequest(options)
  asked.on('error', () => undefined) // if a body is refused while it is sent, the answer is the better reason
  asked.end(body)
  try {
    const [answer] = (await once(asked, 'response', { signal })) as [IncomingMessage]
    return {
      status: answer.statusCode ?? 0,
      location: answer.headers.location,
      body: jsonOf(await textOf(answer)),
    }
  } finally {
    asked.destroy()
  }
}

async function textOf(answer: IncomingMessage): Promise<string> {
  const chunks: Buffer[] = []
  let bytes = 0
  for await (const chunk of answer as AsyncIterable<Buffer>) {
    chunks.push(chunk)
    bytes += chunk.length
    if (bytes > maxAnswerBytes) break
  }
  return Buffer.concat(chunks).toString('utf8')
}

function jsonOf(text: string): unknown {
  try {
    return JSON.parse(text)
  } catch {
    return undefined
  }
}

export type FrontSocket =
  | { readonly kind: 'open'; readonly socket: WebSocket }
  /** another status was answered */
  | { readonly kind: 'refused'; readonly status: number }

/**
 * Asks for a WebSocket, as exec, attach and port-forward do.
 *
 * @throws the error of the connection, or the reason of the signal
 */
export async function openFront(place: FrontPlace, signal: AbortSignal): Promise<FrontSocket> {
  const { url, secureContext } = place
  const address = new URL(url)
  address.protocol = url.protocol === 'https:' ? 'wss:' : 'ws:'
  address.pathname = targetOf(url)
  const options = {
    headers: { ...authorizationOf(place), 'User-Agent': 'kas-doctor' },
    perMessageDeflate: false,
    maxPayload: maxMessageBytes,
    ...(secureContext && { secureContext }),
  }
  const socket = new WebSocket(address, [frontCheckProtocol], options)
  const { promise, resolve, reject } = Promise.withResolvers<FrontSocket>()
  socket.on('open', () => resolve({ kind: 'open', socket }))
  socket.on('unexpected-response', (_, answer) => resolve({ kind: 'refused', status: answer.statusCode ?? 0 }))
  socket.on('error', reject) // an error after 'open' is followed by 'close'
  try {
    const opened = await abortable(promise, signal)
    if (opened.kind === 'refused') socket.terminate()
    return opened
  } catch (error) {
    socket.terminate()
    throw error
  }
}

/**
 * Sends a message.
 *
 * @returns true: the message came back
 * @throws the reason of the signal
 */
export async function echoes(socket: WebSocket, text: string, signal: AbortSignal): Promise<boolean> {
  if (socket.readyState !== socket.OPEN) return false
  const { promise, resolve } = Promise.withResolvers<boolean>()
  const onClose = () => resolve(false)
  socket.once('message', (data) => resolve(String(data) === text))
  socket.once('close', onClose)
  socket.send(text)
  try {
    return await abortable(promise, signal)
  } finally {
    socket.off('close', onClose)
  }
}
