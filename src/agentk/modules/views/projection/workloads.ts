import { at, type KubernetesObject, kindOf, listAt, numberAt, textAt } from '../../../../kubernetes/object.ts'
import { exactTimeOf } from '../../../../kubernetes/time.ts'
import { type Counts, countsOf, daemonCountsOf, desiredOf, setCountsOf } from '../../../health/kas/counts.ts'
import type { Projector } from './projector.ts'
import { labelSelector } from './selectors.ts'

/** Workloads that run Pods, and objects that scale and protect them. */

/** images of a workload that are named */
const maxImages = 2
/** characters of a digest */
const digestLength = 12
/** characters of a time to the minute */
const minuteLength = 16

export const replicaSet: Projector = (object) => {
  const ready = numberAt(object, 'status.readyReplicas') ?? 0
  return { facts: [readyText(ready, desiredOf(object)), ...imagesOf(object)] }
}

export const deployment: Projector = (object) => {
  const paused = at(object, 'spec.paused') === true ? 'paused' : ''
  return { facts: factsOf(object, countsOf(object), paused) }
}

export const statefulSet: Projector = (object) => ({ facts: factsOf(object, setCountsOf(object)) })

export const daemonSet: Projector = (object) => ({ facts: factsOf(object, daemonCountsOf(object)) })

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
  return {
    facts: [
      textAt(object, 'spec.schedule'),
      successOf(object, active > 0),
      active ? `${active} active` : '',
      suspendedOf(object),
    ],
  }
}

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
        kind: kindOf(target),
        namespace: textAt(object, 'metadata.namespace'),
        name: textAt(target, 'name'),
      },
    ],
  }
}

export const podDisruptionBudget: Projector = (object) => {
  const fact = (field: string, what: string) => {
    const count = numberAt(object, `status.${field}`)
    return count === undefined ? '' : `${count} ${what}`
  }
  return {
    facts: [fact('currentHealthy', 'healthy'), fact('desiredHealthy', 'needed'), fact('disruptionsAllowed', 'may go')],
    selector: labelSelector(object, 'spec.selector'),
  }
}

/**
 * Time of the last success, if the last run had none: `last success 2026-11-20 03:00Z`.
 *
 * @param isActive - a run may still succeed
 */
function successOf(cronJob: KubernetesObject, isActive: boolean): string {
  const [scheduled, succeeded] = ['lastScheduleTime', 'lastSuccessfulTime'].map((name) =>
    exactTimeOf(textAt(cronJob, `status.${name}`)),
  )
  if (scheduled === undefined || (succeeded ?? 0) >= scheduled) return ''
  if (succeeded === undefined) return isActive ? 'no success yet' : 'never succeeded'
  return `last success ${new Date(succeeded).toISOString().slice(0, minuteLength).replace('T', ' ')}Z`
}

export const suspendedOf = (object: KubernetesObject) => (at(object, 'spec.suspend') === true ? 'suspended' : '')

/** Facts about what is available, and the images. While old Pods run, the template's image is the one to update to. */
function factsOf(object: KubernetesObject, counts: Counts, state = ''): string[] {
  const images = imagesOf(object)
  if (counts.all <= counts.updated) return [serviceText(counts), state, ...images]
  const [first = '', ...others] = images
  const updated = `${counts.updated}/${counts.desired} updated${first && ` to ${first}`}`
  return [serviceText(counts), updated, state, ...others]
}

/** Text about what is available: `0 of 3 available: nothing serves`; `3/3 ready` if all is as it should be. */
function serviceText({ desired, all, updated, ready, available }: Counts): string {
  const old = Math.max(0, all - updated)
  const isReduced = available < desired
  if (desired === 0 || (!isReduced && old === 0)) return readyText(ready, desired)
  const count = `${available} of ${desired} available`
  // a Service sends to ready Pods, also before minReadySeconds are over
  if (available === 0) return ready === 0 ? `${count}: nothing serves` : count
  // more are available than the other version has: at least one of them is of this version
  const servesOld = old > 0 && available > updated
  const servesNew = old > 0 && available > old
  const version =
    servesOld && servesNew
      ? 'old and new version serve'
      : servesOld
        ? 'old version serves'
        : servesNew
          ? 'new version serves'
          : ''
  const versions = [isReduced ? 'reduced' : '', version].filter(Boolean).join(', ')
  return versions === '' ? count : `${count}: ${versions}`
}

const readyText = (ready: number, desired: number) => `${ready}/${desired} ready`

/** Images without their registries: `web:1.2`. */
function imagesOf(object: KubernetesObject): string[] {
  const images = listAt(object, 'spec.template.spec.containers').map((container) => textAt(container, 'image'))
  return [...new Set(images)].slice(0, maxImages).map((image) => {
    const [name = '', digest] = image.slice(image.lastIndexOf('/') + 1).split('@')
    return digest === undefined || name.includes(':')
      ? name
      : `${name}@${digest.replace(/^sha256:/, '').slice(0, digestLength)}`
  })
}
