import { at, type KubernetesObject, listAt, numberAt, textAt } from '../../../health/object.ts'
import type { Projector } from './projector.ts'

/** images of a workload that are named */
const maxImages = 2
/** characters of a digest */
const digestLength = 12

export const replicas: Projector = (object) => ({ facts: [readyOf(object), ...imagesOf(object)] })

export const deployment: Projector = (object) => ({
  facts: [readyOf(object), at(object, 'spec.paused') === true ? 'paused' : '', ...imagesOf(object)],
})

export const daemonSet: Projector = (object) => {
  const count = (name: string) => numberAt(object, `status.${name}`) ?? 0
  return { facts: [`${count('numberReady')}/${count('desiredNumberScheduled')} ready`, ...imagesOf(object)] }
}

export const job: Projector = (object) => {
  const count = (name: string) => numberAt(object, `status.${name}`) ?? 0
  return {
    facts: [
      `${count('succeeded')}/${numberAt(object, 'spec.completions') ?? 1} succeeded`,
      count('active') ? `${count('active')} active` : '',
      count('failed') ? `${count('failed')} failed` : '',
      suspendedOf(object),
    ],
  }
}

export const cronJob: Projector = (object) => {
  const active = listAt(object, 'status.active').length
  return { facts: [textAt(object, 'spec.schedule'), active ? `${active} active` : '', suspendedOf(object)] }
}

export const suspendedOf = (object: KubernetesObject) => (at(object, 'spec.suspend') === true ? 'suspended' : '')

function readyOf(object: KubernetesObject): string {
  // without a number there is to be one, as their controllers have it
  return `${numberAt(object, 'status.readyReplicas') ?? 0}/${numberAt(object, 'spec.replicas') ?? 1} ready`
}

/** Without their registries: `web:1.2`. */
function imagesOf(object: KubernetesObject): string[] {
  const images = listAt(object, 'spec.template.spec.containers').map((container) => textAt(container, 'image'))
  return [...new Set(images)].slice(0, maxImages).map((image) => {
    const [name = '', digest] = image.slice(image.lastIndexOf('/') + 1).split('@')
    return digest === undefined || name.includes(':')
      ? name
      : `${name}@${digest.replace(/^sha256:/, '').slice(0, digestLength)}`
  })
}
