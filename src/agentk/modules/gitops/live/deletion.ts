import { conditionsOf } from '../../../../kubernetes/conditions.ts'
import { isBeingDeleted, type KubernetesObject } from '../../../../kubernetes/object.ts'
import { finalizersOf, hindrances } from '../../../health/kas/deletion.ts'

/** Limit of finalizers in a text. */
const maxFinalizers = 10
/** Limit of a text. Characters */
const maxLength = 500

/**
 * Returns why an object that is being deleted still exists: the conditions of a namespace or a definition, otherwise
 * its finalizers.
 *
 * @param object - conditions count where it is whole. @returns empty: not known
 */
export function holdsOf(object: KubernetesObject): string {
  if (!isBeingDeleted(object)) return ''
  const conditions = conditionsOf(object).filter(
    ({ type, status, message }) => status === 'True' && message !== '' && reasonTypes.has(type),
  )
  const finalizers = finalizersOf(object)
  const named = [...finalizers.slice(0, maxFinalizers), ...(finalizers.length > maxFinalizers ? ['…'] : [])]
  const said = conditions.map(({ message }) => message.replaceAll(/\s+/g, ' ')).join('; ')
  return (said || (named.length > 0 ? `it has finalizers: ${named.join(', ')}` : '')).slice(0, maxLength)
}

/** Conditions, of a Namespace and of a CustomResourceDefinition, that give the reason. */
const reasonTypes: ReadonlySet<string> = new Set([...hindrances.map(([type]) => type), 'Terminating'])

/** @param holds - from `holdsOf` */
export function beingDeleted(holds: string, after = ''): string {
  return `it is being deleted${after}${holds && `: ${holds}`}`
}
