import { createHmac, timingSafeEqual } from 'node:crypto'
import { sameHash, tokenHash } from '../../../lib/token-hash.ts'
import type { SignedRequest } from '../../own-endpoint.ts'

/** Proof of a Git server that it knows the secret of a hook. */
export interface HookSignature {
  /** True if the head alone rules the secret out. */
  isRefused(secret: string): boolean
  /** Reads the body to its end and keeps none of it. @throws errors of the body */
  isOf(secret: string, body: AsyncIterable<Uint8Array>): Promise<boolean>
}

const hex64 = /^[0-9a-f]{64}$/i

/**
 * Reads the signature from the headers of GitHub (`X-Hub-Signature-256`) and Gitea (`X-Gitea-Signature`), which sign
 * the body, or of GitLab (`X-Gitlab-Token`), which sends the secret itself. Undefined: the request is not signed.
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
        // the sender reads no answer before the body is sent
      }
      return true
    },
  }
}
