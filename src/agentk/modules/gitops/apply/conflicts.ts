import { at, listAt, textAt } from '../../../../kubernetes/object.ts'
import type { ObjectTree } from '../manifests/manifest.ts'
import type { FieldConflict } from '../round.ts'

/** `conflict with "kube-controller-manager" with subresource "scale" using apps/v1` */
const owner = /^conflict with "((?:[^"\\]|\\.)*)"(?: with subresource "([^"]*)")?/

/** Returns the conflicts in a Status 409; none: it is refused for another reason. */
export function conflictsIn(body: unknown): readonly FieldConflict[] {
  return listAt(body, 'details.causes')
    .filter((cause) => cause.reason === 'FieldManagerConflict')
    .map((cause) => {
      const [, manager = '', subresource = ''] = owner.exec(textAt(cause, 'message')) ?? []
      return { field: textAt(cause, 'field'), manager, subresource }
    })
}

/** True for a conflict about the number of replicas. @param path - of that number in the object */
export function areReplicas({ field, subresource }: FieldConflict, path: string): boolean {
  return (subresource === 'scale' && pathOf(field) !== undefined) || field === `.${path}`
}

/** Returns the object without the field of a conflict. */
export function withoutField(object: ObjectTree, { field }: FieldConflict): ObjectTree {
  return removed(object, pathOf(field) ?? [])
}

function removed(object: ObjectTree, [name, ...inner]: readonly string[]): ObjectTree {
  if (name === undefined || !Object.hasOwn(object, name)) return object
  const { [name]: value, ...others } = object
  if (inner.length === 0) return others
  const isTree = typeof at(object, name) === 'object' && value !== null && !Array.isArray(value)
  return isTree ? { ...others, [name]: removed(value as ObjectTree, inner) } : object
}

/** @returns undefined: the field is in a list */
function pathOf(field: string): string[] | undefined {
  return /^(\.[A-Za-z0-9_-]+)+$/.test(field) ? field.slice(1).split('.') : undefined
}
