import { conditionsAt } from '../../../kubernetes/conditions.ts'
import { type KubernetesObject, namespaceOf, textAt } from '../../../kubernetes/object.ts'
import { createdOf } from '../../../kubernetes/time.ts'
import type { Around } from './around.ts'
import { newest } from './evidence.ts'
import { type Finding, type Found, finding, found, minute, ranks } from './finding.ts'
import { quantityOf } from './quotas.ts'
import { isEnding } from './read.ts'

/** Time in which a driver tries again after a failure. ms */
const retriedMs = 2 * minute
/** Time in which drivers and kubelets that run have begun. ms */
const begunMs = 10 * minute

const errors = ['ControllerResizeError', 'NodeResizeError', 'ModifyVolumeError'] as const

/** Judges a claim that has its volume: it should get the size and the class that it asks for. */
export function boundClaim(object: KubernetesObject, around: Around): Finding | undefined {
  const { now } = around
  const conditions = conditionsAt(object, now).filter(({ status }) => status === 'True')
  const of = (type: string) => conditions.find((one) => one.type === type)
  const base = { rank: ranks.pod }
  const error = errors.map(of).find((one) => one !== undefined)
  const states = [
    textAt(object, 'status.allocatedResourceStatuses.storage'),
    `ModifyVolume${textAt(object, 'status.modifyVolumeStatus.status')}`,
  ]
  const refused = states.find((state) => /(?:Infeasible|Failed)$/.test(state))
  const event = isGrowing(object)
    ? newest(around.eventsOf(object).filter(({ reason }) => reason === 'VolumeResizeFailed'))
    : undefined
  const eventNeeds = [['Event', namespaceOf(object)]] as const
  if (refused || error) {
    const reason = refused ?? (error?.type as string)
    const isQuoted = !error?.message && event !== undefined
    const text = error?.message || event?.message || 'its driver refuses what the claim asks for'
    const grace = refused ? minute : retriedMs
    return found(object, now, { ...base, reason, text, since: error?.since, grace, needs: isQuoted ? eventNeeds : [] })
  }
  if (event) {
    const { reason, message, first, last } = event
    return found(object, now, {
      ...base,
      reason,
      text: message,
      since: first,
      last,
      grace: retriedMs,
      needs: eventNeeds,
    })
  }
  const unfinished = of('FileSystemResizePending')
  if (unfinished) return waitsForPod(object, around, { ...base, text: unfinished.message, since: unfinished.since })
  const going = of('Resizing') ?? of('ModifyingVolume')
  if (going) {
    const { type, message, since } = going
    return found(object, now, {
      ...base,
      reason: type,
      text: message || 'its driver changes the volume',
      since,
      grace: undefined,
    })
  }
  if (states[1] === 'ModifyVolumePending') {
    const name = textAt(object, 'status.modifyVolumeStatus.targetVolumeAttributesClassName')
    return notBegun(object, around, { ...base, reason: states[1], text: `waits for volume attributes class ${name}` })
  }
  if (!isGrowing(object)) return undefined
  const [size, capacity] = [textAt(object, requested), textAt(object, 'status.capacity.storage')]
  const text = `asks for ${size}, has ${capacity}: no driver has begun to resize the volume`
  return notBegun(object, around, { ...base, reason: 'ExternalExpanding', text })
}

const requested = 'spec.resources.requests.storage'

function isGrowing(claim: KubernetesObject): boolean {
  const [size, capacity] = [textAt(claim, requested), textAt(claim, 'status.capacity.storage')].map(quantityOf)
  return size !== undefined && capacity !== undefined && size > capacity
}

/** Judges a change that has not begun. No field has its time: an event has it, else the first sight counts. */
function notBegun(object: KubernetesObject, around: Around, one: Omit<Found, 'grace'>): Finding {
  const { now } = around
  const before = around.before(object)
  const event = newest(around.eventsOf(object).filter(({ reason }) => reason === one.reason))
  const known = before?.reason === one.reason ? before.seen : undefined
  const begun = event?.first ?? known ?? now
  const needs = event ? ([['Event', namespaceOf(object)]] as const) : []
  return found(object, now, { ...one, seen: begun, from: begun, grace: begunMs, needs })
}

/** Judges a claim whose file system is to grow. The kubelet resizes it while a Pod uses it. */
function waitsForPod(object: KubernetesObject, around: Around, one: Omit<Found, 'reason' | 'grace'>): Finding {
  const { now } = around
  const namespace = namespaceOf(object)
  const reason = 'FileSystemResizePending'
  if (!around.isLive('Pod', namespace)) return found(object, now, { ...one, reason, grace: undefined })
  const users = around.usersOf(object).filter((pod) => !isEnding(pod) && textAt(pod, 'spec.nodeName') !== '')
  const needs = [['Pod', namespace]] as const
  if (users.length === 0) {
    const text = 'the file system is resized once a Pod uses the claim'
    return finding('Suspended', { ...one, reason, text, needs })
  }
  const failed = newest(
    users.flatMap((pod) =>
      around.eventsOf(pod).filter((event) => /^(?:Volume|FileSystem)ResizeFailed$/.test(event.reason)),
    ),
  )
  const from = Math.max(one.since ?? now, Math.min(...users.map((pod) => createdOf(pod, now) ?? now)))
  return found(object, now, {
    ...one,
    reason: failed?.reason ?? reason,
    text: failed?.message ?? one.text,
    from,
    grace: failed ? retriedMs : begunMs,
    needs: failed ? [...needs, ['Event', namespace]] : needs,
  })
}
