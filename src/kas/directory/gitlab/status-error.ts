import { KasError } from '../../../lib/errors.ts'
import { parseJson } from './answer-schema.ts'
import type { HttpAnswer } from './exchange.ts'

const maxQuotedCharacters = 200
/** of a page, for its title */
const maxSearchedBytes = 2048

/** A status that is no success, with what GitLab says beside it. */
export function statusError({ status, mediaType, retryAfterMs, body }: HttpAnswer, path: string): KasError {
  const message = mediaType === 'application/json' ? messageOf(body) : wordsOf(mediaType, body)
  return new KasError({
    code: 'GITLAB_STATUS',
    status,
    path,
    ...(retryAfterMs === undefined ? {} : { retryAfterMs }),
    ...(message === undefined ? {} : { told: message.slice(0, maxQuotedCharacters) }),
  })
}

/** What is before GitLab says it in a page or in a line, such as that it wants TLS. */
function wordsOf(mediaType: string, body: Buffer): string | undefined {
  const begin = body.toString('latin1', 0, maxSearchedBytes)
  if (mediaType === 'text/html') return /<title>([^<\r\n]*)/i.exec(begin)?.[1]
  return mediaType === 'text/plain' ? /^[^\r\n]+/.exec(begin)?.[0] : undefined
}

/** GitLab's `{"message": "…"}` beside a status. */
function messageOf(body: Buffer): string | undefined {
  const { message } = (parseJson(body) ?? {}) as { message?: unknown }
  return typeof message === 'string' ? message : undefined
}
