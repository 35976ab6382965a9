import type { ObjectKey } from '../../../../kubernetes/key.ts'

/** Namespaces, and definitions of kinds: what is in them, or of their kind, goes with them. */
export function isParent(key: ObjectKey): boolean {
  return isNamespace(key) || isDefinition(key)
}

/** @param plural - as the API server calls the objects of `key`'s kind; undefined: not known */
export function isChild(key: ObjectKey, parent: ObjectKey, plural: string | undefined): boolean {
  if (isNamespace(parent)) return key.namespace === parent.name
  // `widgets.example.com`: the group is what follows the first dot
  if (plural !== undefined) return parent.name === `${plural}.${key.group}`
  return parent.name.slice(parent.name.indexOf('.') + 1) === key.group
}

export function isNamespace({ group, kind }: ObjectKey): boolean {
  return group === '' && kind === 'Namespace'
}

export function isDefinition({ group, kind }: ObjectKey): boolean {
  return group === 'apiextensions.k8s.io' && kind === 'CustomResourceDefinition'
}
