import { at, type KubernetesObject, listField, namespaceOf, textAt, textField } from '../../../../kubernetes/object.ts'
import type { Around } from '../around.ts'
import type { Need } from '../finding.ts'
import { labelTableOf } from '../read.ts'

/** limit of the labels that a Pod asks of its node; if there are more, none is named */
const maxLabels = 16
/** limit of the taints, and of the labels, that are named */
const maxNamed = 5
/** Taint of a node that takes no new Pods; the scheduler has other words for it. */
const cordoned = 'node.kubernetes.io/unschedulable'
const keepsAway: ReadonlySet<string> = new Set(['NoSchedule', 'NoExecute'])
/** Words of the scheduler since Kubernetes 1.35, without the taints. */
const nameless = 'untolerated taint(s)'

/** Text for a Pod whose namespace uses too many selectors. */
const unread = 'no node is read for it: its namespace asks by too many node selectors'

/** Words of the scheduler, which do not say which labels, nor if such nodes exist. */
const unselected = "didn't match Pod's node affinity/selector"

/**
 * Adds to the scheduler's message the labels that the Pod asks of its node, and the taints of such nodes that it does
 * not tolerate. `needs` empty: no node was read.
 */
export function withNodes(
  pod: KubernetesObject,
  message: string,
  around: Around,
): { readonly text: string; readonly needs: readonly Need[] } {
  const all = labelTableOf(at(pod, 'spec.nodeSelector'))
  const selector = all.length > maxLabels ? [] : all
  const labels = listed(selector.map(([name, value]) => `${name}=${value}`))
  const isSelected = message.includes(unselected) && labels !== ''
  if (!isSelected && !message.includes(nameless)) return { text: message, needs: [] }
  const areLive = around.isLive('Node', '')
  const namespace = namespaceOf(pod)
  const found = areLive ? around.taints(namespace, selector) : []
  const isNone = found === undefined
  const read = isNone ? around.taints(namespace, []) : found
  const taints = (read === undefined || read === 'unread' ? [] : read).filter((taint) => isInTheWay(pod, taint))
  const names = listed([...new Set(taints.map(nameOfTaint))].sort())
  const where = labels === '' || isNone ? '' : `where ${labels}: `
  const withLabels = isSelected
    ? message.replace(unselected, () => `${unselected} (${isNone ? `no node has ${labels}` : labels})`)
    : message
  const isTainted = message.includes(nameless) && names !== ''
  const text = isTainted ? withLabels.replace(nameless, () => `${nameless} (${where}${names})`) : withLabels
  return {
    text: found === 'unread' ? `${text}; ${unread}` : text,
    needs: isTainted || (isSelected && isNone) ? [['Node', '']] : [],
  }
}

export const listed = (names: readonly string[]) =>
  [...names.slice(0, maxNamed), ...(names.length > maxNamed ? ['…'] : [])].join(', ')

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

/** Writes a taint as kubectl does: `dedicated=batch:NoSchedule`. */
function nameOfTaint(taint: KubernetesObject): string {
  const value = textAt(taint, 'value')
  return `${textAt(taint, 'key')}${value && `=${value}`}:${textAt(taint, 'effect')}`
}
