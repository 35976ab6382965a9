import { kindKey, parseApiVersion } from './kind.ts'

/** An object as the API server sends it. Any field may be absent or of another type than it should be. */
export type KubernetesObject = Readonly<Record<string, unknown>>

/** limit of cached paths, which are the program's own; further paths are split at each use */
const maxPaths = 1000
const namesByPath = new Map<string, readonly string[]>()

function namesOf(path: string): readonly string[] {
  const known = namesByPath.get(path)
  if (known) return known
  const names = path.split('.')
  if (namesByPath.size < maxPaths) namesByPath.set(path, names)
  return names
}

/** Reads a field of a value that may be no object. @param name - may contain dots */
export function field(value: unknown, name: string): unknown {
  return typeof value === 'object' && value !== null && Object.hasOwn(value, name)
    ? (value as Record<string, unknown>)[name]
    : undefined
}

export function textField(value: unknown, name: string): string {
  const text = field(value, name)
  return typeof text === 'string' ? text : ''
}

/** @returns the objects in a list field; empty if the field is no list */
export function listField(value: unknown, name: string): readonly KubernetesObject[] {
  return objectsIn(field(value, name))
}

/** @param path - names joined by dots; no name in it contains a dot */
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

/** Reads an entry of a map whose keys may contain dots, such as labels and annotations. */
export function entryAt(value: unknown, path: string, name: string): string {
  return textField(at(value, path), name)
}

/** @returns undefined if there is no number */
export function numberAt(value: unknown, path: string): number | undefined {
  const number = at(value, path)
  return typeof number === 'number' ? number : undefined
}

/** Does the same as `listField`, for a path. */
export function listAt(value: unknown, path: string): readonly KubernetesObject[] {
  return objectsIn(at(value, path))
}

function objectsIn(list: unknown): readonly KubernetesObject[] {
  return Array.isArray(list) ? list.filter((one) => typeof one === 'object' && one !== null) : []
}

/** Reads the kind of an object, or of a reference to one, as `kindKey` writes it; '': it has none. */
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
