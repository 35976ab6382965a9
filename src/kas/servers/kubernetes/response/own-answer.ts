import { KasError } from '../../../../lib/errors.ts'

/** Of what kas answers by itself: a method that it does not take, and the headers of its body. */

/** @throws KasError METHOD_NOT_ALLOWED */
export function checkMethod(method: string, allowed: readonly string[]): void {
  if (allowed.includes(method)) return
  throw new KasError({ code: 'METHOD_NOT_ALLOWED', method, allowed: [...allowed, 'OPTIONS'].join(', ') })
}

export function contentHeaders(mediaType: string): string[] {
  return ['Content-Type', mediaType, 'Cache-Control', 'no-store']
}
