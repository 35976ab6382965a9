import { conditionsOf } from '../../../../kubernetes/conditions.ts'
import { isBeingDeleted, type KubernetesObject } from '../../../../kubernetes/object.ts'
import { finalizersOf, hindrances } from '../../../health/kas/deletion.ts'

/** Finalizers that a text names. */
const maxFinalizers = 10
/** Of a text. */
const maxLength = 500

/**
 * Says why an object that is being deleted is still there: by its own conditions if it is a namespace or a definition, else by
 * its finalizers.
 *
 * @param object - conditions are read where it is whole. @returns empty: nothing is known to hold it
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

/** Conditions of a Namespace, and of a CustomResourceDefinition. */
const reasonTypes: ReadonlySet<string> = new Set([...hindrances.map(([type]) => type), 'Terminating'])

/** @param holds - of `holdsOf` */
export function beingDeleted(holds: string, after = ''): string {
  return `it is being deleted${after}${holds && `: ${holds}`}`
}
