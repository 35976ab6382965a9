import { at, numberAt, textAt } from '../../../../kubernetes/object.ts'
import { kindNamed } from './metadata.ts'
import type { Projector } from './projector.ts'

export const horizontalPodAutoscaler: Projector = (object) => {
  const target = at(object, 'spec.scaleTargetRef')
  const [current, least, most] = ['status.currentReplicas', 'spec.minReplicas', 'spec.maxReplicas'].map((path) =>
    numberAt(object, path),
  )
  return {
    facts: [
      current === undefined ? '' : `${current} ${current === 1 ? 'replica' : 'replicas'}`,
      most === undefined ? '' : `${least ?? 1} to ${most}`,
    ],
    references: [
      {
        relation: 'scales',
        kind: kindNamed(target),
        namespace: textAt(object, 'metadata.namespace'),
        name: textAt(target, 'name'),
      },
    ],
  }
}
