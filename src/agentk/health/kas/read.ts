import {
  entryAt,
  isBeingDeleted,
  type KubernetesObject,
  listField,
  nameOf,
  textAt,
  textField,
} from '../../../kubernetes/object.ts'

/** Returns the revision of a ReplicaSet, which its Deployment counts; 0: there is none. */
export function revisionOf(object: KubernetesObject): number {
  const revision = Number(entryAt(object, 'metadata.annotations', 'deployment.kubernetes.io/revision'))
  return Number.isSafeInteger(revision) ? revision : 0
}

export function hasEnded(pod: KubernetesObject): boolean {
  const phase = textAt(pod, 'status.phase')
  return phase === 'Failed' || phase === 'Succeeded'
}

/** Returns the claim that a volume of a Pod names, or that is made for it; '': none. */
export function claimNameOf(pod: KubernetesObject, volume: KubernetesObject): string {
  const { ephemeral } = volume
  if (typeof ephemeral === 'object' && ephemeral !== null) return `${nameOf(pod)}-${textField(volume, 'name')}`
  return textField(volume.persistentVolumeClaim, 'claimName')
}

/** Returns the claims that a Pod names, and those that are made for it. */
export function claimNamesOf(pod: KubernetesObject): readonly string[] {
  const names = listField(pod.spec, 'volumes').map((volume) => claimNameOf(pod, volume))
  return [...new Set(names)].filter((name) => name !== '')
}

/** True for a Pod that has ended or is being deleted. */
export const isEnding = (pod: KubernetesObject) => hasEnded(pod) || isBeingDeleted(pod)

/** Returns the object whose name sorts first, because the order in which objects come has no meaning. */
export function firstByName(objects: readonly KubernetesObject[]): KubernetesObject | undefined {
  return objects.reduce<KubernetesObject | undefined>(
    (first, one) => (first && nameOf(first) <= nameOf(one) ? first : one),
    undefined,
  )
}

/** Labels of an object or a template, or the labels that a selector asks for. */
export type LabelTable = readonly (readonly [name: string, value: string])[]

export function labelTableOf(value: unknown): LabelTable {
  if (typeof value !== 'object' || value === null || Array.isArray(value)) return []
  return Object.entries(value).filter((entry): entry is [string, string] => typeof entry[1] === 'string')
}
