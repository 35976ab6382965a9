import { once } from 'node:events'
import type { IncomingHttpHeaders, IncomingMessage } from 'node:http'
import { request } from 'node:https'
import { text } from 'node:stream/consumers'

/** Makes one GET on a connection of its own. */
export async function httpsGet(
  url: string,
  options: { ca: string; token?: string; headers?: Record<string, string>; signal?: AbortSignal },
): Promise<{ status: number; headers: IncomingHttpHeaders; body: string }> {
  const authorization = options.token === undefined ? {} : { authorization: `Bearer ${options.token}` }
  const sent = request(url, {
    agent: false,
    ca: options.ca,
    headers: { ...authorization, ...options.headers },
    ...(options.signal && { signal: options.signal }),
  })
  const answered = once(sent, 'response')
  sent.end()
  const [answer] = (await answered) as [IncomingMessage]
  return { status: answer.statusCode ?? 0, headers: answer.headers, body: await text(answer) }
}
