import { createHmac } from 'node:crypto'

/** What a Git server sends with a hook, by the secret that it has for it. */
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

/** @throws Error unless kas takes it */
export async function sendHook(url: string, kind: HookKind, secret: string): Promise<void> {
  const body = '{"ref":"refs/heads/main"}'
  const answer = await fetch(url, { method: 'POST', headers: hookHeaders[kind](body, secret), body })
  const text = await answer.text()
  if (answer.status !== 202) throw new Error(`a hook of ${kind} was answered with ${answer.status}: ${text}`)
}

function hmac(body: string | Buffer, secret: string): string {
  return createHmac('sha256', secret).update(body).digest('hex')
}
