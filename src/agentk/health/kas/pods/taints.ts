import { type KubernetesObject, textAt } from '../../object.ts'
import type { Around } from '../around.ts'
import type { Need } from '../finding.ts'
import { listField, textField } from '../read.ts'

/** taints that are named */
const maxNamed = 5
/** Of a node that takes no new Pods the scheduler says so in other words. */
const cordoned = 'node.kubernetes.io/unschedulable'
const keepsAway: ReadonlySet<string> = new Set(['NoSchedule', 'NoExecute'])
/** From Kubernetes 1.35 on the scheduler does not say which. */
const nameless = 'untolerated taint(s)'

/** What the scheduler says of a Pod, with the taints of nodes that the Pod does not tolerate. `needs`: none: as it was said */
export function withTaints(
  pod: KubernetesObject,
  message: string,
  around: Around,
): { readonly text: string; readonly needs: readonly Need[] } {
  const taints = message.includes(nameless) ? around.taints().filter((taint) => isInTheWay(pod, taint)) : []
  if (taints.length === 0) return { text: message, needs: [] }
  const names = [...new Set(taints.map(nameOfTaint))].sort()
  const named = [...names.slice(0, maxNamed), ...(names.length > maxNamed ? ['…'] : [])].join(', ')
  return { text: message.replace(nameless, () => `${nameless} (${named})`), needs: [['Node', '']] }
}

function isInTheWay(pod: KubernetesObject, taint: KubernetesObject): boolean {
  if (!keepsAway.has(textField(taint, 'effect')) || textField(taint, 'key') === cordoned) return false
  return !listField(pod.spec, 'tolerations').some((toleration) => tolerates(toleration, taint))
}

function tolerates(toleration: KubernetesObject, taint: KubernetesObject): boolean {
  const [effect, key] = [textField(toleration, 'effect'), textField(toleration, 'key')]
  const isAny = textField(toleration, 'operator') === 'Exists'
  if (effect !== '' && effect !== textField(taint, 'effect')) return false
  if (key === '' ? !isAny : key !== textField(taint, 'key')) return false
  return isAny || textField(toleration, 'value') === textField(taint, 'value')
}

/** As kubectl writes it: `dedicated=batch:NoSchedule`. */
function nameOfTaint(taint: KubernetesObject): string {
  const value = textAt(taint, 'value')
  return `${textAt(taint, 'key')}${value && `=${value}`}:${textAt(taint, 'effect')}`
}
