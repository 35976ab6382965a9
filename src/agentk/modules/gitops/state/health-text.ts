import { keyName } from '../../../../kubernetes/key.ts'
import { printable } from '../../../../lib/printable.ts'
import type { HealthCounts, SourceState, UnhealthyObject } from '../../../../proto/gen/gitops_states_pb.ts'
import type { SourceCondition } from './transitions.ts'

/** Returns the line of an object that is not healthy, with its cause if one is known: no text of other objects. */
export function healthLine({ key, word, culprit, reason }: UnhealthyObject): string {
  const name = key ? keyName(key) : ''
  const isOther = culprit && key && keyName(culprit) !== name
  const cause = [isOther ? keyName(culprit) : '', reason].filter((part) => part !== '').join(': ')
  return printable(`${name}: ${word}${cause && `: ${cause}`}`)
}

/** Returns the numbers of objects by verdict. */
export function healthCounts({ $typeName: _, $unknown: __, ...counts }: HealthCounts): object {
  return counts
}

/**
 * Returns what the condition `Ready` says of a source whose commit is in the cluster: true once its objects are healthy.
 *
 * @returns undefined: nobody judges their health
 */
export function healthStatus({
  health,
  unhealthy,
}: Pick<SourceState, 'health' | 'unhealthy'>): Pick<SourceCondition, 'status' | 'reason' | 'message'> | undefined {
  if (!health) return undefined
  const { degraded, missing, progressing, unknown, unread } = health
  const [first] = unhealthy
  const message = first ? healthLine(first) : ''
  if (degraded + missing > 0) return { status: 'False', reason: 'Degraded', message }
  if (progressing > 0) return { status: 'False', reason: 'Progressing', message }
  if (unknown > 0) return { status: 'Unknown', reason: 'HealthUnknown', message }
  if (unread > 0) return { status: 'Unknown', reason: 'HealthUnknown', message: `${unread} objects were not read yet` }
  return undefined
}
