import { listAt, textAt } from '../../../../kubernetes/object.ts'
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
  return (subresource === 'scale' && !isInList(field)) || field === `.${path}`
}

function isInList(field: string): boolean {
  return !/^(\.[A-Za-z0-9_-]+)+$/.test(field)
}
