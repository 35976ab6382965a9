import { numberAt } from '../../../../kubernetes/object.ts'
import type { Projector } from './projector.ts'
import { labelSelector } from './selectors.ts'

export const podDisruptionBudget: Projector = (object) => {
  const fact = (field: string, what: string) => {
    const count = numberAt(object, `status.${field}`)
    return count === undefined ? '' : `${count} ${what}`
  }
  return {
    facts: [fact('currentHealthy', 'healthy'), fact('desiredHealthy', 'needed'), fact('disruptionsAllowed', 'may go')],
    selector: labelSelector(object, 'spec.selector'),
  }
}
