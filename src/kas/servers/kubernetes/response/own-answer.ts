import { KasError } from '../../../../lib/errors.ts'

/** Parts of kas' own answers: the check of the method, and the headers of the body. */

/** @throws KasError METHOD_NOT_ALLOWED */
export function checkMethod(method: string, allowed: readonly string[]): void {
  if (allowed.includes(method)) return
  throw new KasError({ code: 'METHOD_NOT_ALLOWED', method, allowed: allowed.join(', ') })
}

export interface ContentHead {
  /** -1: there is a body of unknown length */
  readonly contentLength: number
}

/**
 * Refuses a body that nothing reads, because kas would wait for its end.
 *
 * @throws KasError BAD_REQUEST
 */
export function checkBodiless(method: string, { contentLength }: ContentHead): void {
  if (contentLength === 0 || (method !== 'GET' && method !== 'HEAD')) return
  const detail = `a ${method} cannot have a body here. Send it without Content-Length and Transfer-Encoding`
  throw new KasError({ code: 'BAD_REQUEST', detail })
}

export function contentHeaders(mediaType: string): string[] {
  return ['Content-Type', mediaType, 'Cache-Control', 'no-store']
}
