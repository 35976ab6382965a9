import { builtIn } from '../../../../kubernetes/kind.ts'
import { listAt, textAt } from '../../../../kubernetes/object.ts'
import { collectionPath, withQuery } from '../../../../kubernetes/path.ts'
import type { ApiLane } from '../../../cluster/api-lanes.ts'
import { maxEventBytes } from '../../../cluster/watch-request.ts'
import { beforeFirstApply } from '../live/managed-fields.ts'
import type { ObjectTree } from '../manifests/manifest.ts'
import type { FieldConflict } from './conflicts.ts'

/** Of a namespace, read at most: some 4 KiB each. */
const maxAutoscalers = 500

/** The number of replicas of an object whose owners were forgotten: an autoscaler's, perhaps. */
export function areUnknownReplicas({ field, manager }: FieldConflict): boolean {
  return field === '.spec.replicas' && manager === beforeFirstApply
}

/** An autoscaler names it as its target. Empty without the right to list them. @throws as the lane */
export async function isAutoscaled(object: ObjectTree, lane: ApiLane, signal: AbortSignal): Promise<boolean> {
  const collection = collectionPath(builtIn.horizontalPodAutoscalers, textAt(object, 'metadata.namespace'))
  const path = withQuery(collection, { limit: maxAutoscalers })
  const { status, body } = await lane.json('GET', path, undefined, signal, { maxBytes: maxEventBytes })
  const [kind, name] = [textAt(object, 'kind'), textAt(object, 'metadata.name')]
  const targets = status === 200 ? listAt(body, 'items').map((one) => one.spec) : []
  return targets.some(
    (spec) => textAt(spec, 'scaleTargetRef.kind') === kind && textAt(spec, 'scaleTargetRef.name') === name,
  )
}
