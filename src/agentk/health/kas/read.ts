import { entryAt, isBeingDeleted, type KubernetesObject, numberAt, textAt } from '../../../kubernetes/object.ts'

/** A field of what may be no object. */
export function field(value: unknown, name: string): unknown {
  return typeof value === 'object' && value !== null && Object.hasOwn(value, name)
    ? (value as Record<string, unknown>)[name]
    : undefined
}

export function textField(value: unknown, name: string): string {
  const text = field(value, name)
  return typeof text === 'string' ? text : ''
}

/** @returns what of a field are objects */
export function listField(value: unknown, name: string): readonly KubernetesObject[] {
  const list = field(value, name)
  return Array.isArray(list) ? list.filter((one) => typeof one === 'object' && one !== null) : []
}

/** Times before it are unknown ones: containerd writes 1970 for what did not start. ms */
const firstKnown = Date.parse('2000-01-01T00:00:00Z')

/**
 * @param now - of the API server. ms since 1970
 * @returns ms since 1970; a time to come is now; undefined: it is not known
 */
export function timeOf(text: unknown, now: number): number | undefined {
  const time = exactTimeOf(text)
  return time === undefined ? undefined : Math.min(time, now)
}

/** As `timeOf`, for times that may well be to come. */
export function exactTimeOf(text: unknown): number | undefined {
  if (typeof text !== 'string' || text.length > 64) return undefined
  const time = Date.parse(text)
  return time >= firstKnown ? time : undefined
}

export function createdOf(object: KubernetesObject, now: number): number | undefined {
  return timeOf(textAt(object, 'metadata.creationTimestamp'), now)
}

export const nameOf = (object: KubernetesObject) => textAt(object, 'metadata.name')
export const namespaceOf = (object: KubernetesObject) => textAt(object, 'metadata.namespace')
export const uidOf = (object: KubernetesObject) => textAt(object, 'metadata.uid')

/** A condition with the time since which it has its status. */
export interface TimedCondition {
  readonly type: string
  readonly status: string
  readonly reason: string
  readonly message: string
  /** ms since 1970 */
  readonly since: number | undefined
  /** of the object's spec that it speaks of */
  readonly generation: number | undefined
}

export function timedConditions(list: unknown, now: number): readonly TimedCondition[] {
  return listField({ list }, 'list').map((one) => toTimed(one, now))
}

function toTimed(one: KubernetesObject, now: number): TimedCondition {
  return {
    type: textField(one, 'type'),
    status: textField(one, 'status'),
    reason: textField(one, 'reason'),
    message: textField(one, 'message'),
    since: timeOf(one.lastTransitionTime, now),
    generation: numberAt(one, 'observedGeneration'),
  }
}

export function conditionsAt(object: KubernetesObject, now: number): readonly TimedCondition[] {
  return timedConditions(field(object.status, 'conditions'), now)
}

/** The first condition of a type. The others are not read. */
export function conditionAt(object: KubernetesObject, type: string, now: number): TimedCondition | undefined {
  const found = rawCondition(object, type)
  return found && toTimed(found, now)
}

/** '': there is none of the type. */
export function conditionStatus(object: KubernetesObject, type: string): string {
  return textField(rawCondition(object, type), 'status')
}

/** '': there is none of the type, or it has none. */
export function conditionReason(object: KubernetesObject, type: string): string {
  return textField(rawCondition(object, type), 'reason')
}

function rawCondition(object: KubernetesObject, type: string): KubernetesObject | undefined {
  const list = field(object.status, 'conditions')
  return Array.isArray(list) ? list.find((one) => field(one, 'type') === type) : undefined
}

/** Whether its controller has not seen the spec as it is. */
export function isUnobserved(object: KubernetesObject): boolean {
  const observed = numberAt(object, 'status.observedGeneration')
  return observed !== undefined && observed < (numberAt(object, 'metadata.generation') ?? 0)
}

/** Of a ReplicaSet, as its Deployment counts. */
export function revisionOf(object: KubernetesObject): number {
  const revision = Number(entryAt(object, 'metadata.annotations', 'deployment.kubernetes.io/revision'))
  return Number.isSafeInteger(revision) ? revision : 0
}

export function hasEnded(pod: KubernetesObject): boolean {
  const phase = textAt(pod, 'status.phase')
  return phase === 'Failed' || phase === 'Succeeded'
}

/** The claim that a volume of a Pod names, or that is made for it; '': none. */
export function claimNameOf(pod: KubernetesObject, volume: KubernetesObject): string {
  const { ephemeral } = volume
  if (typeof ephemeral === 'object' && ephemeral !== null) return `${nameOf(pod)}-${textField(volume, 'name')}`
  return textField(volume.persistentVolumeClaim, 'claimName')
}

/** Claims that a Pod names, and those that are made for it. */
export function claimNamesOf(pod: KubernetesObject): readonly string[] {
  const names = listField(pod.spec, 'volumes').map((volume) => claimNameOf(pod, volume))
  return [...new Set(names)].filter((name) => name !== '')
}

/** A Pod whose life has an end: it has come, or is asked for. */
export const isEnding = (pod: KubernetesObject) => hasEnded(pod) || isBeingDeleted(pod)

/** Labels of an object, of a template, or those that a selector asks for. */
export type LabelTable = readonly (readonly [name: string, value: string])[]

export function labelTableOf(value: unknown): LabelTable {
  if (typeof value !== 'object' || value === null || Array.isArray(value)) return []
  return Object.entries(value).filter((entry): entry is [string, string] => typeof entry[1] === 'string')
}
