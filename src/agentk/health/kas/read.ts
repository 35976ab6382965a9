import {
  entryAt,
  isBeingDeleted,
  type KubernetesObject,
  listField,
  nameOf,
  textAt,
  textField,
} from '../../../kubernetes/object.ts'

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

/** Returns the one whose name is the least: the order in which objects come says nothing. */
export function firstByName(objects: readonly KubernetesObject[]): KubernetesObject | undefined {
  return objects.reduce<KubernetesObject | undefined>(
    (first, one) => (first && nameOf(first) <= nameOf(one) ? first : one),
    undefined,
  )
}

/** Labels of an object, of a template, or those that a selector asks for. */
export type LabelTable = readonly (readonly [name: string, value: string])[]

export function labelTableOf(value: unknown): LabelTable {
  if (typeof value !== 'object' || value === null || Array.isArray(value)) return []
  return Object.entries(value).filter((entry): entry is [string, string] => typeof entry[1] === 'string')
}
