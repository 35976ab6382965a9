import { at, type KubernetesObject, listField, namespaceOf, textAt, textField } from '../../../../kubernetes/object.ts'
import type { Around } from '../around.ts'
import type { Need } from '../finding.ts'
import { labelTableOf } from '../read.ts'

/** labels that a Pod asks of its node: of more none is named */
const maxLabels = 16
/** taints, and labels, that are named */
const maxNamed = 5
/** Of a node that takes no new Pods the scheduler says so in other words. */
const cordoned = 'node.kubernetes.io/unschedulable'
const keepsAway: ReadonlySet<string> = new Set(['NoSchedule', 'NoExecute'])
/** From Kubernetes 1.35 on the scheduler does not say which. */
const nameless = 'untolerated taint(s)'

/** Stands in the text of a Pod whose namespace asks by too many. */
const unread = 'no node is read for it: its namespace asks by too many node selectors'

/** It does not say which, nor whether there are such nodes. */
const unselected = "didn't match Pod's node affinity/selector"

/**
 * What the scheduler says of a Pod, with the labels that the Pod asks of its node, and the taints that it does not tolerate
 * of the nodes that have them. `needs`: none: no node was read for it.
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

/** As kubectl writes it: `dedicated=batch:NoSchedule`. */
function nameOfTaint(taint: KubernetesObject): string {
  const value = textAt(taint, 'value')
  return `${textAt(taint, 'key')}${value && `=${value}`}:${textAt(taint, 'effect')}`
}
