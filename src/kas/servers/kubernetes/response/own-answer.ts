import { KasError } from '../../../../lib/errors.ts'

/** Of what kas answers by itself: a method that it does not take, and the headers of its body. */

/** @throws KasError METHOD_NOT_ALLOWED */
export function checkMethod(method: string, allowed: readonly string[]): void {
  if (allowed.includes(method)) return
  throw new KasError({ code: 'METHOD_NOT_ALLOWED', method, allowed: allowed.join(', ') })
}

export interface ContentHead {
  /** -1: unknown, there is a body */
  readonly contentLength: number
}

/**
 * Nothing reads such a body, and its end would be waited for.
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
