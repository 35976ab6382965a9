import { entryAt, type KubernetesObject, namespaceOf, textAt } from '../../../kubernetes/object.ts'
import { createdOf } from '../../../kubernetes/time.ts'
import { type Around, isMissing } from './around.ts'
import { newest } from './evidence.ts'
import { type Finding, finding, found, minute, ranks } from './finding.ts'

const classKind = 'storage.k8s.io/StorageClass'
const classMs = minute
const provisioningMs = 2 * minute
export const boundMs = 5 * minute

/** Of a PersistentVolumeClaim. */
export function claim(object: KubernetesObject, around: Around): Finding | undefined {
  const { now } = around
  const phase = textAt(object, 'status.phase')
  const since = createdOf(object, now)
  const base = { rank: ranks.pod, since }
  if (phase === 'Lost') {
    const text = `volume ${textAt(object, 'spec.volumeName')} is lost`
    return found(object, now, { ...base, reason: 'VolumeLost', text, grace: 0 })
  }
  if (phase === 'Bound') return undefined
  const className = textAt(object, 'spec.storageClassName')
  if (isMissing(around, classKind, '', className)) {
    const text = `storage class ${className} does not exist`
    return found(object, now, {
      ...base,
      reason: 'StorageClassMissing',
      text,
      grace: classMs,
      needs: [[classKind, '']],
    })
  }
  const event = newest(
    around.eventsOf(object).filter(({ reason }) => reason === 'ProvisioningFailed' || reason === 'FailedBinding'),
  )
  if (event) {
    const { reason, message, last, first } = event
    const needs = [['Event', namespaceOf(object)]] as const
    return found(object, now, { ...base, reason, text: message, last, grace: provisioningMs, from: first, needs })
  }
  const storageClass = around.find(classKind, '', className)
  return unbound(object, around, textAt(storageClass, 'volumeBindingMode') === 'WaitForFirstConsumer')
}

const annotationOf = (claim: KubernetesObject, name: string) =>
  entryAt(claim, 'metadata.annotations', `volume.kubernetes.io/${name}`)

/** The node that the scheduler has chosen for its Pod; '': none yet. */
export const chosenNodeOf = (claim: KubernetesObject) => annotationOf(claim, 'selected-node')

/** @param waits - its class binds it once a Pod needs it */
function unbound(object: KubernetesObject, around: Around, waits: boolean): Finding {
  const { now } = around
  const needs = [['Pod', namespaceOf(object)], ...(waits ? ([[classKind, '']] as const) : [])] as const
  const base = { rank: ranks.pod, since: createdOf(object, now) }
  const areLive = around.isLive('Pod', namespaceOf(object))
  const users = areLive ? around.usersOf(object) : []
  if (waits && areLive && users.length === 0) {
    const text = 'no Pod uses it yet'
    return finding('Suspended', { ...base, reason: 'WaitForFirstConsumer', text, needs })
  }
  const volume = textAt(object, 'spec.volumeName')
  const provisioner = annotationOf(object, 'storage-provisioner')
  const waited = volume ? `volume ${volume}` : provisioner && `provisioner ${provisioner}`
  const text = waited ? `waits for ${waited}` : 'no volume is bound'
  if (users.length === 0) return found(object, now, { ...base, reason: 'NotBound', text, grace: undefined })
  // the scheduler chooses a node first: that it finds none is the Pod's own finding
  const isChosen = chosenNodeOf(object) !== ''
  if (waits && !isChosen) {
    const text = 'its Pod has no node yet'
    return found(object, now, { ...base, rank: ranks.other, reason: 'NotBound', text, grace: undefined, needs })
  }
  const created = users.map((pod) => createdOf(pod, now) ?? now)
  const from = Math.max(createdOf(object, now) ?? 0, Math.min(...created))
  return found(object, now, { ...base, reason: 'NotBound', text, grace: boundMs, from, needs })
}
