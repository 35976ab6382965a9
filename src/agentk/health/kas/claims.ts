import { entryAt, type KubernetesObject, nameOf, namespaceOf, textAt, uidOf } from '../../../kubernetes/object.ts'
import { createdOf } from '../../../kubernetes/time.ts'
import { type Around, isMissing } from './around.ts'
import { boundClaim } from './bound-claims.ts'
import { newest } from './evidence.ts'
import { type Finding, finding, found, minute, ranks } from './finding.ts'
import { firstByName } from './read.ts'

const volumeKind = 'PersistentVolume'
const classKind = 'storage.k8s.io/StorageClass'
const classMs = minute
const provisioningMs = 2 * minute
export const boundMs = 5 * minute

/** Judges a PersistentVolumeClaim. */
export function claim(object: KubernetesObject, around: Around): Finding | undefined {
  const { now } = around
  const phase = textAt(object, 'status.phase')
  const since = createdOf(object, now)
  const base = { rank: ranks.pod, since }
  if (phase === 'Lost') {
    const text = `volume ${textAt(object, 'spec.volumeName')} is lost`
    return found(object, now, { ...base, reason: 'VolumeLost', text, grace: 0 })
  }
  if (phase === 'Bound') return boundClaim(object, around)
  const className = textAt(object, 'spec.storageClassName')
  const volumeName = textAt(object, 'spec.volumeName')
  const taken = volumeName === '' ? undefined : takenVolume(object, volumeName, around)
  if (taken) return taken
  // a class without an object is for volumes that are made by hand
  if (volumeName === '' && isMissing(around, classKind, '', className)) {
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
    around
      .eventsOf(object)
      .filter(({ reason }) => /^(?:ProvisioningFailed|FailedBinding|VolumeMismatch)$/.test(reason)),
  )
  if (event) {
    const { reason, message, last, first } = event
    const needs = [['Event', namespaceOf(object)]] as const
    return found(object, now, { ...base, reason, text: message, last, grace: provisioningMs, from: first, needs })
  }
  const storageClass = around.find(classKind, '', className)
  return unbound(object, around, textAt(storageClass, 'volumeBindingMode'))
}

/** Finds that the named volume does not exist, or belongs to another claim. */
function takenVolume(object: KubernetesObject, name: string, around: Around): Finding | undefined {
  const { now } = around
  const needs = [[volumeKind, '']] as const
  const base = { rank: ranks.pod, since: createdOf(object, now), needs }
  if (isMissing(around, volumeKind, '', name)) {
    const text = `volume ${name} does not exist`
    return found(object, now, { ...base, reason: 'VolumeMissing', text, grace: provisioningMs })
  }
  const volume = around.find(volumeKind, '', name)
  const uid = textAt(volume, 'spec.claimRef.uid')
  if (!volume || uid === uidOf(object)) return undefined
  const claimed = textAt(volume, 'spec.claimRef.name')
  const place = `${textAt(volume, 'spec.claimRef.namespace')}/${claimed}`
  const isOwn = place === `${namespaceOf(object)}/${nameOf(object)}`
  // without a uid the volume is reserved for a claim of that name
  if (claimed === '' || (uid === '' && isOwn)) return undefined
  const other = isOwn ? `an earlier claim ${place}` : `claim ${place}`
  const text = `volume "${name}" already bound to a different claim: it is ${textAt(volume, 'status.phase')}, of ${other}`
  return found(object, now, { ...base, reason: 'FailedBinding', text, grace: provisioningMs })
}

const annotationOf = (claim: KubernetesObject, name: string) =>
  entryAt(claim, 'metadata.annotations', `volume.kubernetes.io/${name}`)

/** Returns the node that the scheduler has chosen for the claim's Pod; '': none yet. */
export const chosenNodeOf = (claim: KubernetesObject) => annotationOf(claim, 'selected-node')

/** @param mode - binding mode of its class; '': not known */
function unbound(object: KubernetesObject, around: Around, mode: string): Finding {
  const { now } = around
  const waits = mode === 'WaitForFirstConsumer'
  const isImmediate = mode === 'Immediate'
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
  // a provisioner that waits for no Pod makes the volume at once
  const isBegun = provisioner !== '' && isImmediate
  if (users.length === 0) {
    const all = isBegun ? { grace: boundMs, needs: [[classKind, '']] as const } : { grace: undefined }
    return found(object, now, { ...base, reason: 'NotBound', text, ...all })
  }
  // the scheduler chooses a node first; if it finds none, that is the Pod's own finding
  const isChosen = chosenNodeOf(object) !== ''
  const placed =
    waits && !isChosen ? firstByName(users.filter((pod) => textAt(pod, 'spec.nodeName') !== '')) : undefined
  if (placed) {
    const text = `Pod ${nameOf(placed)} names its node itself (nodeName): the scheduler chooses none for the claim, which stays unbound`
    const from = Math.max(createdOf(object, now) ?? 0, createdOf(placed, now) ?? now)
    return found(object, now, { ...base, reason: 'NotBound', text, grace: classMs, from, needs })
  }
  if (waits && !isChosen) {
    const text = 'its Pod has no node yet'
    return found(object, now, { ...base, rank: ranks.other, reason: 'NotBound', text, grace: undefined, needs })
  }
  const created = users.map((pod) => createdOf(pod, now) ?? now)
  const from = Math.max(createdOf(object, now) ?? 0, Math.min(...created))
  return found(object, now, { ...base, reason: 'NotBound', text, grace: boundMs, from, needs })
}
