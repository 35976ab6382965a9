import type { ObjectKey } from '../../../../kubernetes/key.ts'

/** True for namespaces and definitions of kinds: objects in them, or of their kind, are deleted with them. */
export function isParent(key: ObjectKey): boolean {
  return isNamespace(key) || isDefinition(key)
}

/** @param plural - plural of `key`'s kind in the API; undefined: not known */
export function isChild(key: ObjectKey, parent: ObjectKey, plural: string | undefined): boolean {
  if (isNamespace(parent)) return key.namespace === parent.name
  // `widgets.example.com`: the group follows the first dot
  if (plural !== undefined) return parent.name === `${plural}.${key.group}`
  return parent.name.slice(parent.name.indexOf('.') + 1) === key.group
}

export function isNamespace({ group, kind }: ObjectKey): boolean {
  return group === '' && kind === 'Namespace'
}

export function isDefinition({ group, kind }: ObjectKey): boolean {
  return group === 'apiextensions.k8s.io' && kind === 'CustomResourceDefinition'
}
