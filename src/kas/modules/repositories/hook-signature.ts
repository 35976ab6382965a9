import { createHmac, timingSafeEqual } from 'node:crypto'
import { sameHash, tokenHash } from '../../../lib/token-hash.ts'
import type { SignedRequest } from '../../own-endpoint.ts'

/** How a Git server shows that it knows the secret of a hook. */
export interface HookSignature {
  /** Whether the head alone rules the secret out. */
  isRefused(secret: string): boolean
  /** Reads the body to its end and keeps none of it. @throws what the body throws */
  isOf(secret: string, body: AsyncIterable<Uint8Array>): Promise<boolean>
}

const hex64 = /^[0-9a-f]{64}$/i

/**
 * By the headers of GitHub (`X-Hub-Signature-256`) and Gitea (`X-Gitea-Signature`), which sign the body, or of GitLab
 * (`X-Gitlab-Token`), which sends the secret itself. Undefined: it is not signed.
 *
 * @see https://docs.github.com/en/webhooks/using-webhooks/validating-webhook-deliveries
 * @see https://docs.gitea.com/usage/webhooks
 * @see https://docs.gitlab.com/user/project/integrations/webhooks/
 */
export function hookSignature({ header }: Pick<SignedRequest, 'header'>): HookSignature | undefined {
  const github = header('x-hub-signature-256')
  if (github?.startsWith('sha256=')) return signed(github.slice('sha256='.length))
  const gitea = header('x-gitea-signature')
  if (gitea !== undefined) return signed(gitea)
  const token = header('x-gitlab-token')
  return token === undefined ? undefined : shown(token)
}

function signed(signature: string): HookSignature | undefined {
  if (!hex64.test(signature)) return undefined
  return {
    isRefused: () => false,
    async isOf(secret, body) {
      const hmac = createHmac('sha256', secret)
      for await (const piece of body) hmac.update(piece)
      return timingSafeEqual(hmac.digest(), Buffer.from(signature, 'hex'))
    },
  }
}

function shown(token: string): HookSignature {
  const isSame = (secret: string) => sameHash(tokenHash(token), tokenHash(secret))
  return {
    isRefused: (secret) => !isSame(secret),
    async isOf(secret, body) {
      if (!isSame(secret)) return false
      for await (const _ of body) {
        // its sender reads no answer before all is sent
      }
      return true
    },
  }
}
