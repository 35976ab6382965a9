import { conditionsAt } from '../../../../kubernetes/conditions.ts'
import { type KubernetesObject, textAt } from '../../../../kubernetes/object.ts'
import { timeOf } from '../../../../kubernetes/time.ts'
import { type Finding, found, ranks } from '../finding.ts'
import { containersOf, type EndedLife, endedLife, endOf } from './container.ts'
import { isStartError } from './crashes.ts'

/** Judges a Pod that has failed for good. */
export function failedPod(pod: KubernetesObject, now: number): Finding {
  const ended = containersOf(pod).flatMap((container) => {
    const life = endedLife(container, 'state', now)
    return life ? [{ container, life }] : []
  })
  const conditions = conditionsAt(pod, now)
  const disrupted = conditions.find(({ type, status }) => type === 'DisruptionTarget' && status === 'True')
  const finished = latest(ended.map(({ life }) => life.finished))
  const since =
    finished ??
    conditions.find(({ type, status }) => type === 'Ready' && status === 'False')?.since ??
    timeOf(textAt(pod, 'status.startTime'), now)
  const message = textAt(pod, 'status.message')
  const reason = textAt(pod, 'status.reason')
  const ofPod = { rank: ranks.pod, since, last: finished, grace: 0 }
  if (reason) return found(pod, now, { ...ofPod, reason, text: message || `the Pod has failed: ${reason}` })
  if (disrupted)
    return found(pod, now, { ...ofPod, reason: disrupted.reason || disrupted.type, text: disrupted.message })
  const failed = ended.find(({ life }) => life.exitCode !== 0 || life.reason === 'OOMKilled')
  if (!failed) return found(pod, now, { ...ofPod, reason: 'Failed', text: message || 'the Pod has failed' })
  const { container, life } = failed
  const text = `container ${container.name}: ${endOf(life, container)}`
  return found(pod, now, {
    ...ofPod,
    since: life.finished ?? since,
    last: life.finished,
    reason: reasonOfEnd(life),
    text,
    rank: ranks.container,
    about: container.name,
  })
}

export function reasonOfEnd(life: EndedLife): string {
  if (life.reason === 'OOMKilled') return 'OOMKilled'
  return isStartError(life.reason) ? 'StartError' : 'NonZeroExit'
}

function latest(times: readonly (number | undefined)[]): number | undefined {
  let found: number | undefined
  for (const time of times) if (time !== undefined && (found === undefined || time > found)) found = time
  return found
}
