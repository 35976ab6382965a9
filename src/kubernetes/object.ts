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

/** A field of what may be no object. @param name - may hold dots */
export function field(value: unknown, name: string): unknown {
  return typeof value === 'object' && value !== null && Object.hasOwn(value, name)
    ? (value as Record<string, unknown>)[name]
    : undefined
}

export function textField(value: unknown, name: string): string {
  const text = field(value, name)
  return typeof text === 'string' ? text : ''
}

/** @returns what of a field are objects; none where there is no list */
export function listField(value: unknown, name: string): readonly KubernetesObject[] {
  return objectsIn(field(value, name))
}

/** @param path - names, joined by dots: no name in it holds one */
export function at(value: unknown, path: string): unknown {
  let found = value
  for (const name of namesOf(path)) {
    found = field(found, name)
    if (found === undefined) return undefined
  }
  return found
}

export function textAt(value: unknown, path: string): string {
  const text = at(value, path)
  return typeof text === 'string' ? text : ''
}

/** Of a table whose names may hold dots, as labels and annotations have them. */
export function entryAt(value: unknown, path: string, name: string): string {
  return textField(at(value, path), name)
}

/** @returns undefined where there is no number */
export function numberAt(value: unknown, path: string): number | undefined {
  const number = at(value, path)
  return typeof number === 'number' ? number : undefined
}

/** As `listField`. */
export function listAt(value: unknown, path: string): readonly KubernetesObject[] {
  return objectsIn(at(value, path))
}

function objectsIn(list: unknown): readonly KubernetesObject[] {
  return Array.isArray(list) ? list.filter((one) => typeof one === 'object' && one !== null) : []
}

/** Of an object, or of what names one by `apiVersion` and `kind`: as `kindKey` writes it; empty: it has none. */
export function kindOf(object: unknown): string {
  const kind = textAt(object, 'kind')
  return kind === '' ? '' : kindKey(parseApiVersion(textAt(object, 'apiVersion')).group, kind)
}

export function isBeingDeleted(object: KubernetesObject): boolean {
  return textAt(object, 'metadata.deletionTimestamp') !== ''
}

export const nameOf = (object: KubernetesObject) => textAt(object, 'metadata.name')
export const namespaceOf = (object: KubernetesObject) => textAt(object, 'metadata.namespace')
export const uidOf = (object: KubernetesObject) => textAt(object, 'metadata.uid')
