import { kindKey, parseApiVersion } from './kind.ts'

/** An object as the API server has it, read with care: nothing of it need be there, or be of the type that it should. */
export type KubernetesObject = Readonly<Record<string, unknown>>

/** of the program's own paths, each once; past them paths are taken apart again */
const maxPaths = 1000
const namesByPath = new Map<string, readonly string[]>()

function namesOf(path: string): readonly string[] {
  const known = namesByPath.get(path)
  if (known) return known
  const names = path.split('.')
  if (namesByPath.size < maxPaths) namesByPath.set(path, names)
  return names
}

/** @param path - names, joined by dots: no name in it holds one */
export function at(value: unknown, path: string): unknown {
  let found = value
  for (const name of namesOf(path)) {
    if (typeof found !== 'object' || found === null || !Object.hasOwn(found, name)) return undefined
    found = (found as Record<string, unknown>)[name]
  }
  return found
}

export function textAt(value: unknown, path: string): string {
  const text = at(value, path)
  return typeof text === 'string' ? text : ''
}

/** Of a table whose names may hold dots, as labels and annotations have them. */
export function entryAt(value: unknown, path: string, name: string): string {
  const table = at(value, path)
  if (typeof table !== 'object' || table === null || !Object.hasOwn(table, name)) return ''
  const text = (table as Record<string, unknown>)[name]
  return typeof text === 'string' ? text : ''
}

/** @returns undefined where there is no number */
export function numberAt(value: unknown, path: string): number | undefined {
  const number = at(value, path)
  return typeof number === 'number' ? number : undefined
}

/** @returns what of it are objects; none where there is no list */
export function listAt(value: unknown, path: string): readonly KubernetesObject[] {
  const list = at(value, path)
  return Array.isArray(list) ? list.filter((one) => typeof one === 'object' && one !== null) : []
}

export interface Condition {
  readonly type: string
  readonly status: string
  readonly reason: string
  readonly message: string
}

export function conditionsOf(object: KubernetesObject): readonly Condition[] {
  return listAt(object, 'status.conditions').map(toCondition)
}

export function toCondition(value: unknown): Condition {
  const [type, status, reason, message] = ['type', 'status', 'reason', 'message'].map((name) => textAt(value, name))
  return { type, status, reason, message } as Condition
}

/** Of an object, or of what names one by `apiVersion` and `kind`: as `kindKey` writes it; empty: it has none. */
export function kindOf(object: unknown): string {
  const kind = textAt(object, 'kind')
  return kind === '' ? '' : kindKey(parseApiVersion(textAt(object, 'apiVersion')).group, kind)
}

export function isBeingDeleted(object: KubernetesObject): boolean {
  return textAt(object, 'metadata.deletionTimestamp') !== ''
}
