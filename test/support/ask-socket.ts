import { once } from 'node:events'
import { type IncomingMessage, request } from 'node:http'
import { text } from 'node:stream/consumers'

/** Returns a replica's answer on its Unix socket `ops.socket`. */
export async function askSocket(socketPath: string, path: string): Promise<unknown> {
  const [response] = (await once(request({ socketPath, path }).end(), 'response')) as [IncomingMessage]
  return JSON.parse(await text(response))
}
