import { isBeingDeleted, type KubernetesObject, textAt } from '../../../kubernetes/object.ts'
import { timeOf } from '../../../kubernetes/time.ts'
import type { Around } from './around.ts'
import { newest } from './evidence.ts'
import { type Finding, found, minute, ranks } from './finding.ts'

/** Time in which a volume may be deleted after a first failure. ms */
const deletingMs = 2 * minute

/** Time in which a busy driver tries again. ms */
const attachingMs = 2 * minute

/** Judges a VolumeAttachment: its driver may fail to attach the volume to a node, or to detach it. */
export function attachment(object: KubernetesObject, { now }: Around): Finding | undefined {
  const isEnding = isBeingDeleted(object)
  const error = isEnding ? 'status.detachError' : 'status.attachError'
  const message = textAt(object, `${error}.message`)
  if (message === '') return undefined
  const of = (name: string) => textAt(object, `spec.${name}`)
  const place = `volume ${of('source.persistentVolumeName')}, node ${of('nodeName')}`
  const begun = isEnding ? textAt(object, 'metadata.deletionTimestamp') : textAt(object, 'metadata.creationTimestamp')
  return found(object, now, {
    reason: isEnding ? 'DetachFailed' : 'AttachFailed',
    text: `${place}: ${message}`,
    rank: ranks.pod,
    since: timeOf(begun, now),
    last: timeOf(textAt(object, `${error}.time`), now),
    grace: attachingMs,
  })
}

/** Judges a PersistentVolume that should be deleted, or used again, and whose driver fails to do so. */
export function volume(object: KubernetesObject, around: Around): Finding | undefined {
  const { now } = around
  const phase = textAt(object, 'status.phase')
  const since = timeOf(textAt(object, 'status.lastPhaseTransitionTime'), now)
  const base = { rank: ranks.pod, since }
  if (phase === 'Failed') {
    const text = textAt(object, 'status.message') || textAt(object, 'status.reason') || 'its driver has given it up'
    return found(object, now, { ...base, reason: textAt(object, 'status.reason') || 'VolumeFailed', text, grace: 0 })
  }
  if (phase !== 'Released') return undefined
  // events of cluster-scoped objects are in `default`
  const needs = [['Event', 'default']] as const
  const event = newest(around.eventsOf(object).filter(({ reason }) => reason === 'VolumeFailedDelete'))
  if (!event) return undefined
  const { reason, message, first, last } = event
  return found(object, now, { ...base, reason, text: message, last, grace: deletingMs, from: first, needs })
}
