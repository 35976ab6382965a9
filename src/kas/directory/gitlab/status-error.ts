import { KasError } from '../../../lib/errors.ts'
import { parseJson } from './answer-schema.ts'
import type { HttpAnswer } from './exchange.ts'

const maxToldCharacters = 200

/** A status that is no success, with what GitLab says beside it. */
export function statusError({ status, mediaType, retryAfterMs, body }: HttpAnswer, path: string): KasError {
  const told = mediaType === 'application/json' ? messageOf(body) : undefined
  return new KasError({
    code: 'GITLAB_STATUS',
    status,
    path,
    ...(retryAfterMs === undefined ? {} : { retryAfterMs }),
    ...(told === undefined ? {} : { told: told.slice(0, maxToldCharacters) }),
  })
}

/** GitLab's `{"message": "…"}` beside a status. */
function messageOf(body: Buffer): string | undefined {
  const { message } = (parseJson(body) ?? {}) as { message?: unknown }
  return typeof message === 'string' ? message : undefined
}
