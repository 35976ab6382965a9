import { once } from 'node:events'
import { type ClientHttp2Session, connect } from 'node:http2'
import type { ReplicaPorts } from '../../dev/start/ports.ts'
import { delay } from '../../src/lib/signals.ts'
import type { Round } from './attack.ts'
import { dial, type Stage } from './stage.ts'

/** A call whose bytes are the attack's own. */
export interface RawStream {
  /** `code text` of its status; never rejects */
  readonly refused: Promise<string>
  /** Resolves once there is room for more, or the stream has ended. */
  write(bytes: Buffer): Promise<void>
}

export interface RawStreams {
  /** @param token - undefined: none */
  open(method: string, token: string | undefined): RawStream
  destroy(): void
}

/** Opens an HTTP/2 connection to 8150, without a gRPC library. */
export async function dialStreams({ ca }: Stage, { agents }: ReplicaPorts): Promise<RawStreams> {
  const socket = dial(ca, agents, ['h2'])
  const session = connect('https://kas.test', { createConnection: () => socket })
  session.on('error', () => undefined)
  await once(session, 'connect')
  return { open: (method, token) => open(session, method, token), destroy: () => session.destroy() }
}

/**
 * Plays one round on connections that stay open until it ends, also if it was cut short.
 *
 * @param play - resolves with the refusal that the evil tenant got
 */
export async function playedOn(connections: readonly RawStreams[], play: () => Promise<string>): Promise<Round> {
  const end = async () => {
    for (const connection of connections) connection.destroy()
  }
  try {
    return { refusal: await play(), end }
  } catch (error) {
    await end()
    throw error
  }
}

/**
 * Sends the same request again and again for `ms`, each as soon as the one before has ended.
 *
 * @param streams - requests at once
 * @returns the different results
 */
export async function repeatRequest(
  connection: RawStreams,
  { method, token, message, streams, ms }: RepeatedRequest,
  signal: AbortSignal,
): Promise<string> {
  let isOver = false
  const over = delay(ms, signal).then(() => {
    isOver = true
    return ''
  })
  const ends = new Set<string>()
  const ask = async () => {
    while (!isOver) {
      const stream = connection.open(method, token)
      void stream.write(message)
      ends.add(await Promise.race([stream.refused, over]))
    }
  }
  await Promise.all(Array.from({ length: streams }, ask))
  return [...ends].join('; ')
}

export interface RepeatedRequest {
  readonly method: string
  readonly token: string
  readonly message: Buffer
  readonly streams: number
  readonly ms: number
}

function open(session: ClientHttp2Session, method: string, token: string | undefined): RawStream {
  const stream = session.request(
    {
      ':method': 'POST',
      ':path': method,
      'content-type': 'application/grpc',
      te: 'trailers',
      'grpc-encoding': 'gzip',
      ...(token === undefined ? {} : { authorization: `Bearer ${token}` }),
    },
    { endStream: false },
  )
  let refusal = 'ended without a word'
  const hear = (headers: Record<string, unknown>) => {
    if (headers['grpc-status'] !== undefined) refusal = `${headers['grpc-status']} ${headers['grpc-message']}`
  }
  stream.on('error', () => undefined)
  stream.on('response', hear)
  stream.on('trailers', hear)
  stream.resume()
  const refused = new Promise<string>((resolve) => stream.once('close', () => resolve(refusal)))
  const ended = refused.then(() => undefined)
  const write = (bytes: Buffer) =>
    Promise.race([new Promise<void>((resolve) => void stream.write(bytes, () => resolve())), ended])
  return { refused, write }
}
