import { conditionsOf } from '../../../kubernetes/conditions.ts'
import { type ArgoRule, degraded, healthy, progressing } from './health.ts'

/** What adds kinds to the API server. */

export const apiService: ArgoRule = (object) => {
  const available = conditionsOf(object).find(({ type }) => type === 'Available')
  if (!available) return progressing('Waiting to be processed')
  const text = `${available.reason}: ${available.message}`
  return available.status === 'True' ? healthy(text) : progressing(text)
}

export const customResourceDefinition: ArgoRule = (object) => {
  const conditions = conditionsOf(object)
  if (conditions.length === 0) return progressing('Status conditions not found')
  const find = (type: string) => conditions.find((condition) => condition.type === type)
  const [terminating, names, schema, established] = [
    find('Terminating'),
    find('NamesAccepted'),
    find('NonStructuralSchema'),
    find('Established'),
  ]
  if (terminating?.status === 'True') return progressing(`CRD is terminating: ${terminating.message}`)
  if (names?.status === 'False') return degraded(`CRD names have not been accepted: ${names.message}`)
  if (schema?.status === 'True') return degraded(`Schema violations found: ${schema.message}`)
  if (established?.status === 'True') return healthy('CRD is healthy')
  if (established?.reason === 'Installing') return progressing('CRD is being installed')
  return degraded('CRD is not established')
}
