import { conditionsAt, type TimedCondition, timedConditions } from '../../../kubernetes/conditions.ts'
import { type KubernetesObject, listAt, numberAt, textField } from '../../../kubernetes/object.ts'
import type { Around } from './around.ts'
import { type Finding, found, ranks, worstOf } from './finding.ts'

export const gatewayGroup = 'gateway.networking.k8s.io/'

/** Conditions of the Gateway API that are False where all is well. */
const isNoFailure: ReadonlySet<string> = new Set([
  'AttachedListenerSets',
  'Conflicted',
  'Detached',
  'OverlappingTLSConfig',
  'PartiallyInvalid',
  'InsecureFrontendValidationMode',
])

/** Of a Gateway, its listeners, and of routes and policies by each parent that they name. */
export function gateway(object: KubernetesObject, { now }: Around): Finding | undefined {
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
          // its controller has not come to it
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

/** Reasons of a Gateway that only sum up those of its listeners. */
const ofListeners: ReadonlySet<string> = new Set(['ListenersNotValid', 'Invalid'])

const isOf = ({ generation }: TimedCondition, wanted: number | undefined) =>
  generation === undefined || wanted === undefined || generation === wanted
