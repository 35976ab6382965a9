import { at, field, type KubernetesObject, listAt, listField, numberAt, textField } from './object.ts'
import { timeOf } from './time.ts'

/** Condition that a controller has written about an object, one per type. A field that it has not set is ''. */
export interface Condition {
  readonly type: string
  readonly status: string
  readonly reason: string
  readonly message: string
}

/** A condition with the time at which its status began. */
export interface TimedCondition extends Condition {
  /** ms since 1970 */
  readonly since: number | undefined
  /** generation of the object's spec that the condition refers to; undefined: not stated */
  readonly generation: number | undefined
}

export function conditionsOf(object: unknown): readonly Condition[] {
  return listAt(object, 'status.conditions').map(toCondition)
}

export function toCondition(one: unknown): Condition {
  return {
    type: textField(one, 'type'),
    status: textField(one, 'status'),
    reason: textField(one, 'reason'),
    message: textField(one, 'message'),
  }
}

/** @param now - time of the API server, in ms since 1970 */
export function conditionsAt(object: KubernetesObject, now: number): readonly TimedCondition[] {
  return timedConditions(at(object, 'status.conditions'), now)
}

/** Reads the conditions of a list outside of the status. */
export function timedConditions(list: unknown, now: number): readonly TimedCondition[] {
  return listField({ list }, 'list').map((one) => toTimed(one, now))
}

function toTimed(one: KubernetesObject, now: number): TimedCondition {
  const since = timeOf(one.lastTransitionTime, now)
  return { ...toCondition(one), since, generation: numberAt(one, 'observedGeneration') }
}

/** Returns the first condition of a type. It does not read the others. */
export function conditionAt(object: KubernetesObject, type: string, now: number): TimedCondition | undefined {
  const found = rawCondition(object, type)
  return found && toTimed(found, now)
}

/** @returns '': there is no condition of the type */
export function conditionStatus(object: unknown, type: string): string {
  return textField(rawCondition(object, type), 'status')
}

/** @returns '': there is no condition of the type, or it has no reason */
export function conditionReason(object: unknown, type: string): string {
  return textField(rawCondition(object, type), 'reason')
}

function rawCondition(object: unknown, type: string): KubernetesObject | undefined {
  const list = at(object, 'status.conditions')
  return Array.isArray(list) ? list.find((one) => field(one, 'type') === type) : undefined
}

/** True if the controller has not seen the current spec. */
export function isUnobserved(object: KubernetesObject): boolean {
  const observed = numberAt(object, 'status.observedGeneration')
  return observed !== undefined && observed < (numberAt(object, 'metadata.generation') ?? 0)
}
