import { conditionStatus, conditionsAt, type TimedCondition, timedConditions } from '../../../kubernetes/conditions.ts'
import {
  type KubernetesObject,
  kindOf,
  listAt,
  namespaceOf,
  numberAt,
  textAt,
  textField,
} from '../../../kubernetes/object.ts'
import { createdOf } from '../../../kubernetes/time.ts'
import { type Around, isMissing } from './around.ts'
import { type Finding, found, minute, type Need, ranks, worstOf } from './finding.ts'

export const gatewayGroup = 'gateway.networking.k8s.io/'

/** Conditions of the Gateway API that are False if all is well. */
const isNoFailure: ReadonlySet<string> = new Set([
  'AttachedListenerSets',
  'Conflicted',
  'Detached',
  'OverlappingTLSConfig',
  'PartiallyInvalid',
  'InsecureFrontendValidationMode',
])

/** Time in which an object that another one names may still come. ms */
const newMs = minute
const classKind = `${gatewayGroup}GatewayClass`
const gatewayKind = `${gatewayGroup}Gateway`

/** Judges a Gateway, its listeners, and routes and policies by each parent that they name. */
export function gateway(object: KubernetesObject, around: Around): Finding | undefined {
  const { now } = around
  const absent = unnamed(object, around)
  if (absent) return absent
  const generation = numberAt(object, 'metadata.generation')
  const refused = (conditions: readonly TimedCondition[], what: string) =>
    conditions
      .filter((one) => one.status === 'False' && !isNoFailure.has(one.type) && isOf(one, generation))
      .map(({ type, reason, message, since }) =>
        found(object, now, {
          reason: reason || type,
          text: `${what}${message || `${type} is False`}`,
          rank: ranks.other,
          since,
          // its controller has not handled it yet
          grace: reason === 'Pending' ? undefined : 0,
        }),
      )
  const parents = [...listAt(object, 'status.parents'), ...listAt(object, 'status.ancestors')]
  const own = refused(conditionsAt(object, now), '')
  return worstOf([
    ...own.filter(({ reason }) => !ofListeners.has(reason)),
    ...listAt(object, 'status.listeners').flatMap((listener) =>
      refused(timedConditions(listener.conditions, now), `listener ${textField(listener, 'name')}: `),
    ),
    ...own,
    ...parents.flatMap((parent) => refused(timedConditions(parent.conditions, now), '')),
  ])
}

/** Finds a Gateway whose class does not exist, or a route whose Gateway does not. No controller reports this. */
function unnamed(object: KubernetesObject, around: Around): Finding | undefined {
  const absent = (reason: string, text: string, need: Need) =>
    found(object, around.now, {
      reason,
      text,
      rank: ranks.other,
      grace: newMs,
      from: createdOf(object, around.now),
      needs: [need],
    })
  if (kindOf(object) === gatewayKind) {
    const name = textAt(object, 'spec.gatewayClassName')
    const accepted = conditionStatus(object, 'Accepted')
    if (accepted === 'True' || accepted === 'False' || !isMissing(around, classKind, '', name)) return undefined
    return absent('GatewayClassMissing', `gateway class ${name} does not exist`, [classKind, ''])
  }
  // a controller reports on the parents that it knows
  if (listAt(object, 'status.parents').length > 0) return undefined
  for (const parent of listAt(object, 'spec.parentRefs')) {
    const kind = `${textField(parent, 'group') || gatewayGroup.slice(0, -1)}/${textField(parent, 'kind') || 'Gateway'}`
    const [namespace, name] = [textField(parent, 'namespace') || namespaceOf(object), textField(parent, 'name')]
    if (kind !== gatewayKind || !isMissing(around, kind, namespace, name)) continue
    return absent('GatewayMissing', `gateway ${namespace}/${name} does not exist`, [kind, namespace])
  }
  return undefined
}

/** Reasons of a Gateway that only sum up those of its listeners. */
const ofListeners: ReadonlySet<string> = new Set(['ListenersNotValid', 'Invalid'])

const isOf = ({ generation }: TimedCondition, wanted: number | undefined) =>
  generation === undefined || wanted === undefined || generation === wanted
