import { at, field, type KubernetesObject, listAt, listField, numberAt, textField } from './object.ts'
import { timeOf } from './time.ts'

/** What a controller says of an object: of each type there is one. What is not said is ''. */
export interface Condition {
  readonly type: string
  readonly status: string
  readonly reason: string
  readonly message: string
}

/** A condition with the time since which it has its status. */
export interface TimedCondition extends Condition {
  /** ms since 1970 */
  readonly since: number | undefined
  /** of the object's spec that it speaks of */
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

/** @param now - of the API server. ms since 1970 */
export function conditionsAt(object: KubernetesObject, now: number): readonly TimedCondition[] {
  return timedConditions(at(object, 'status.conditions'), now)
}

/** Of a list that stands elsewhere than in the status. */
export function timedConditions(list: unknown, now: number): readonly TimedCondition[] {
  return listField({ list }, 'list').map((one) => toTimed(one, now))
}

function toTimed(one: KubernetesObject, now: number): TimedCondition {
  const since = timeOf(one.lastTransitionTime, now)
  return { ...toCondition(one), since, generation: numberAt(one, 'observedGeneration') }
}

/** The first condition of a type. The others are not read. */
export function conditionAt(object: KubernetesObject, type: string, now: number): TimedCondition | undefined {
  const found = rawCondition(object, type)
  return found && toTimed(found, now)
}

/** '': there is none of the type. */
export function conditionStatus(object: unknown, type: string): string {
  return textField(rawCondition(object, type), 'status')
}

/** '': there is none of the type, or it has none. */
export function conditionReason(object: unknown, type: string): string {
  return textField(rawCondition(object, type), 'reason')
}

function rawCondition(object: unknown, type: string): KubernetesObject | undefined {
  const list = at(object, 'status.conditions')
  return Array.isArray(list) ? list.find((one) => field(one, 'type') === type) : undefined
}

/** Whether its controller has not seen the spec as it is. */
export function isUnobserved(object: KubernetesObject): boolean {
  const observed = numberAt(object, 'status.observedGeneration')
  return observed !== undefined && observed < (numberAt(object, 'metadata.generation') ?? 0)
}
