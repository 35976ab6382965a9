import { at, textAt } from '../../../kubernetes/object.ts'
import { type ArgoRule, degraded, healthy, progressing, unknown } from './health.ts'

/** What something outside of the API server provides: addresses and volumes. */

export const service: ArgoRule = (object) => {
  if (textAt(object, 'spec.type') !== 'LoadBalancer') return healthy()
  return hasAddress(object) ? healthy() : progressing()
}

export const ingress: ArgoRule = (object) => (hasAddress(object) ? healthy() : progressing())

export const persistentVolumeClaim: ArgoRule = (object) => {
  switch (textAt(object, 'status.phase')) {
    case 'Lost':
      return degraded()
    case 'Pending':
      return progressing()
    case 'Bound':
      return healthy()
    default:
      return unknown()
  }
}

function hasAddress(object: Parameters<ArgoRule>[0]): boolean {
  const found = at(object, 'status.loadBalancer.ingress')
  return Array.isArray(found) && found.length > 0
}
