import { KasError } from '../../../../lib/errors.ts'

/** Reads a query, member by member: unknown members, and values of another type, are refused. */

/** @throws KasError BAD_REQUEST: it is not JSON */
export function parse(bytes: Uint8Array): unknown {
  try {
    return JSON.parse(new TextDecoder('utf-8', { fatal: true }).decode(bytes))
  } catch {
    return refuse('the query is not JSON')
  }
}

/** @throws KasError BAD_REQUEST: the value is no object, or has members that are not in `allowed` */
export function members<Key extends string>(value: unknown, name: string, allowed: readonly Key[]) {
  if (typeof value !== 'object' || value === null || Array.isArray(value)) return refuse(`${name} is not an object`)
  const unknown = Object.keys(value).find((key) => !allowed.includes(key as Key))
  if (unknown !== undefined) {
    refuse(`${name} has the unknown key ${shown(unknown)}; allowed: ${allowed.join(', ')}`)
  }
  return value as Partial<Record<Key, unknown>>
}

/** @throws KasError BAD_REQUEST */
export function oneOf<T extends string>(value: unknown, name: string, allowed: readonly T[]): T {
  if (allowed.includes(value as T)) return value as T
  return refuse(`${name} is one of ${allowed.filter(Boolean).join(', ')}`)
}

/**
 * Returns a text; absent: empty.
 *
 * @throws KasError BAD_REQUEST
 */
export function text(value: unknown, name: string): string {
  if (value === undefined) return ''
  return typeof value === 'string' ? value : refuse(`${name} is not a text`)
}

/**
 * Returns texts in order, each once; an empty list counts as absent.
 *
 * @throws KasError BAD_REQUEST
 */
export function list(value: unknown, name: string): readonly string[] | undefined {
  if (value === undefined) return undefined
  if (!Array.isArray(value) || !value.every((one) => typeof one === 'string'))
    return refuse(`${name} is not a list of texts`)
  return value.length > 0 ? [...new Set<string>(value)].sort() : undefined
}

const shown = (key: string) => JSON.stringify(key.length > 40 ? `${key.slice(0, 40)}…` : key)

/** @throws KasError BAD_REQUEST */
export function refuse(detail: string): never {
  throw new KasError({ code: 'BAD_REQUEST', detail })
}
