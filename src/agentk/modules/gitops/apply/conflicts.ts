import { builtIn } from '../../../../kubernetes/kind.ts'
import { at, listAt, textAt } from '../../../../kubernetes/object.ts'
import { collectionPath, withQuery } from '../../../../kubernetes/path.ts'
import type { ApiLane } from '../../../cluster/api-lanes.ts'
import { maxEventBytes } from '../../../cluster/watch-request.ts'
import { beforeFirstApply } from '../live/managed-fields.ts'
import type { ObjectTree } from '../manifests/manifest.ts'

/** A field that an apply without force would have changed, and who owns it. */
export interface FieldConflict {
  /** `.spec.replicas` */
  readonly field: string
  readonly manager: string
  /** through which it was written; empty: the object itself */
  readonly subresource: string
}

/** `conflict with "kube-controller-manager" with subresource "scale" using apps/v1` */
const owner = /^conflict with "((?:[^"\\]|\\.)*)"(?: with subresource "([^"]*)")?/

/** What people change by hand is drift; what a controller scales is not. */
const byHand = /^kubectl/

/** Of a Status 409; none: it is refused for another reason. */
export function conflictsIn(body: unknown): readonly FieldConflict[] {
  return listAt(body, 'details.causes')
    .filter((cause) => cause.reason === 'FieldManagerConflict')
    .map((cause) => {
      const [, manager = '', subresource = ''] = owner.exec(textAt(cause, 'message')) ?? []
      return { field: textAt(cause, 'field'), manager, subresource }
    })
}

/** An autoscaler decides on it. */
export function isLeftToScaler({ field, manager, subresource }: FieldConflict): boolean {
  return subresource === 'scale' && !byHand.test(manager) && pathOf(field) !== undefined
}

/** The object without the field of a conflict. */
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

/** @returns undefined: it leads into a list */
function pathOf(field: string): string[] | undefined {
  return /^(\.[A-Za-z0-9_-]+)+$/.test(field) ? field.slice(1).split('.') : undefined
}

/** Of a namespace, read at most: some 4 KiB each. */
const maxAutoscalers = 500

/** The number of replicas of an object whose owners were forgotten: an autoscaler's, perhaps. */
export function areUnknownReplicas({ field, manager }: FieldConflict): boolean {
  return field === '.spec.replicas' && manager === beforeFirstApply
}

/** An autoscaler names it as its target. Empty without the right to list them. @throws as the lane */
export async function isAutoscaled(object: ObjectTree, lane: ApiLane, signal: AbortSignal): Promise<boolean> {
  const namespace = textAt(object, 'metadata.namespace')
  if (namespace === '') return false // an autoscaler stands beside its target
  const path = withQuery(collectionPath(builtIn.horizontalPodAutoscalers, namespace), { limit: maxAutoscalers })
  const { status, body } = await lane.json('GET', path, undefined, signal, { maxBytes: maxEventBytes })
  const [kind, name] = [textAt(object, 'kind'), textAt(object, 'metadata.name')]
  const targets = status === 200 ? listAt(body, 'items').map((one) => one.spec) : []
  return targets.some(
    (spec) => textAt(spec, 'scaleTargetRef.kind') === kind && textAt(spec, 'scaleTargetRef.name') === name,
  )
}
