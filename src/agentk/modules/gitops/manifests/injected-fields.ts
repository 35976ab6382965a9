import { entryAt } from '../../../../kubernetes/object.ts'
import type { ObjectTree } from './manifest.ts'

/** Annotations by which a manifest asks another program to write a certificate into it. */
export const certificateInjectors: readonly string[] = [
  'cert-manager.io/inject-ca-from',
  'cert-manager.io/inject-ca-from-secret',
  'cert-manager.io/inject-apiserver-ca',
  'service.beta.openshift.io/inject-cabundle',
]
/** Label with which OpenShift writes the certificates that the cluster trusts into a ConfigMap. */
const trustedBundle = 'config.openshift.io/inject-trusted-cabundle'

/** Places of `caBundle`: of webhooks, of a definition's conversion, of an APIService. */
const certificatePlaces: readonly (readonly string[])[] = [
  ['webhooks', '*', 'clientConfig', 'caBundle'],
  ['spec', 'conversion', 'webhook', 'clientConfig', 'caBundle'],
  ['spec', 'caBundle'],
]

/** Removes the fields that a controller writes at the request of the manifest: their values are placeholders. */
export function withoutInjected(object: ObjectTree): ObjectTree {
  return placesOf(object).reduce<ObjectTree>((rest, place) => removed(rest, place) as ObjectTree, object)
}

function placesOf(object: ObjectTree): readonly (readonly string[])[] {
  if (object.kind === 'ClusterRole' && isMap(object.aggregationRule)) return [['rules']]
  if (entryAt(object, 'metadata.labels', trustedBundle) === 'true') return [['data', 'ca-bundle.crt']]
  if (!certificateInjectors.some((name) => entryAt(object, 'metadata.annotations', name) !== '')) return []
  return object.kind === 'ConfigMap' ? [['data', 'service-ca.crt']] : certificatePlaces
}

function removed(value: unknown, [name, ...inner]: readonly string[]): unknown {
  if (name === undefined) return value
  if (name === '*') return Array.isArray(value) ? value.map((item) => removed(item, inner)) : value
  if (!isMap(value) || !Object.hasOwn(value, name)) return value
  const { [name]: found, ...others } = value
  return inner.length === 0 ? others : { ...value, [name]: removed(found, inner) }
}

function isMap(value: unknown): value is Readonly<Record<string, unknown>> {
  return typeof value === 'object' && value !== null && !Array.isArray(value)
}
