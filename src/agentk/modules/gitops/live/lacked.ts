import type { ObjectKey } from '../../../../kubernetes/key.ts'
import { builtIn } from '../../../../kubernetes/kind.ts'
import { collectionPath, objectPath, versionPath, withQuery } from '../../../../kubernetes/path.ts'
import type { AbsentObject } from './absent-objects.ts'
import type { ClusterKind, ClusterKinds } from './cluster-kinds.ts'

/** Missing object that a refusal names: `serviceaccount "x" not found`. */
export interface Lacked {
  /** plural or singular, in lower case */
  readonly resource: string
  /** empty: not named */
  readonly group: string
  readonly name: string
  /** empty: the namespace of the object that needs it */
  readonly namespace: string
  /** it exists, and nothing serves it */
  readonly isUnserved: boolean
}

/** Its parts have bounds, since a long word in a message is searched from each of its letters. */
const notFound = /([A-Za-z]{1,63})(?:\.([a-z0-9.-]{1,253}))? "([^"/]{1,253})" not found/
const noPriorityClass = /no PriorityClass with name (\S{1,253}) was found/
const noEndpoints = /no endpoints available for (service) "([^"/]{1,253})"/
/** service of a webhook, in its address */
const webhookHost = /Post "https:\/\/[^./"]{1,63}\.([^./"]{1,63})\.svc[:/]/

/** @param message - of the API server */
export function lackedIn(message: string): Lacked | undefined {
  const namespace = webhookHost.exec(message)?.[1] ?? ''
  const priorityClass = noPriorityClass.exec(message)?.[1]
  const [, service, unserved] = noEndpoints.exec(message) ?? []
  const [, resource = '', group = '', name] = notFound.exec(message) ?? []
  const of = { group: '', namespace, isUnserved: false }
  if (priorityClass !== undefined) return { ...of, resource: 'priorityclass', name: priorityClass }
  if (service !== undefined && unserved !== undefined) {
    return { ...of, resource: service, name: unserved, isUnserved: true }
  }
  return name === undefined ? undefined : { ...of, resource: resource.toLowerCase(), group, name }
}

/** Returns the place of an object that a refusal names as missing. @returns undefined: none, or of an unknown kind */
export function absentOf(
  { kind, lacks }: { readonly kind: string; readonly lacks?: Lacked },
  { key, version }: { readonly key: ObjectKey; readonly version: string },
  kinds: ClusterKinds,
): AbsentObject | undefined {
  if (kind === 'unserved') return { path: versionPath({ group: key.group, version }), holds: { kind: key.kind } }
  const found = lacks && kinds.listable.find((one) => isNamed(one, lacks))
  if (lacks && found) {
    const namespace = lacks.namespace || key.namespace
    const slices = collectionPath(builtIn.endpointSlices, namespace)
    const labelSelector = `kubernetes.io/service-name=${lacks.name}`
    if (lacks.isUnserved) return { path: withQuery(slices, { labelSelector }), holds: 'endpoints' }
    return { path: objectPath(found, { namespace, name: lacks.name }) }
  }
  if (kind !== 'absent' || key.namespace === '') return undefined
  return { path: objectPath(builtIn.namespaces, { name: key.namespace }) }
}

function isNamed({ group, kind, plural }: ClusterKind, lacks: Lacked): boolean {
  return (lacks.group === '' || lacks.group === group) && [plural, kind.toLowerCase()].includes(lacks.resource)
}
