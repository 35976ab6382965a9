import { createHmac } from 'node:crypto'
import { once } from 'node:events'
import { request as plainRequest } from 'node:http'
import { request as tlsRequest } from 'node:https'
import { text } from 'node:stream/consumers'

/** Headers of a hook from each kind of Git server, by the secret of the hook. */
export const hookHeaders = {
  github: (body: string | Buffer, secret: string) => ({
    'X-GitHub-Event': 'push',
    'X-Hub-Signature-256': `sha256=${hmac(body, secret)}`,
  }),
  gitea: (body: string | Buffer, secret: string) => ({
    'X-Gitea-Event': 'push',
    'X-Gitea-Signature': hmac(body, secret),
  }),
  gitlab: (_: string | Buffer, secret: string) => ({ 'X-Gitlab-Event': 'Push Hook', 'X-Gitlab-Token': secret }),
} as const

export type HookKind = keyof typeof hookHeaders
export const hookKinds = Object.keys(hookHeaders) as readonly HookKind[]

/**
 * @param to.ca - PEM of the authority of an https URL
 * @throws Error unless kas accepts it
 */
export async function sendHook(to: { url: string; ca?: string }, kind: HookKind, secret: string): Promise<void> {
  const body = '{"ref":"refs/heads/main"}'
  const options = { method: 'POST', headers: hookHeaders[kind](body, secret) }
  const { url, ca } = to
  const sent = url.startsWith('https:') ? tlsRequest(url, { ...options, ca }) : plainRequest(url, options)
  sent.end(body)
  const [answer] = await once(sent, 'response')
  const said = await text(answer)
  if (answer.statusCode !== 202) throw new Error(`a hook of ${kind} was answered with ${answer.statusCode}: ${said}`)
}

function hmac(body: string | Buffer, secret: string): string {
  return createHmac('sha256', secret).update(body).digest('hex')
}
