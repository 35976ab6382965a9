import { at, type KubernetesObject, kindOf, listAt, numberAt, textAt } from '../../../../kubernetes/object.ts'
import { maxLabels, maxLabelText, maxName, maxOwners, maxOwnerText } from './bounds.ts'
import type { Owner } from './projector.ts'

/** Metadata that objects of all kinds have. */
export interface Metadata {
  readonly uid: string
  readonly name: string
  readonly namespace: string
  readonly labels: ReadonlyMap<string, string>
  readonly owner: Owner | undefined
  readonly otherOwners: readonly Owner[]
  /** ms since 1970; 0: unknown */
  readonly created: number
  /** generation of the spec; 0: there is none */
  readonly generation: number
}

/** True if agentk asked the API server for metadata alone. */
export function isMetadataAlone(object: KubernetesObject): boolean {
  return object.kind === 'PartialObjectMetadata'
}

/** @returns undefined: uid or name is missing, or a text is too long */
export function metadataOf(object: KubernetesObject): Metadata | undefined {
  const [uid, name, namespace] = ['uid', 'name', 'namespace'].map((field) => textAt(object, `metadata.${field}`)) as [
    string,
    string,
    string,
  ]
  if (uid === '' || name === '' || [uid, name, namespace].some((text) => text.length > maxName)) return undefined
  const [owner, ...otherOwners] = ownersOf(object)
  const created = Date.parse(textAt(object, 'metadata.creationTimestamp'))
  return {
    uid,
    name,
    namespace,
    labels: labelsOf(object),
    owner,
    otherOwners,
    created: Number.isNaN(created) ? 0 : created,
    generation: numberAt(object, 'metadata.generation') ?? 0,
  }
}

/** Labels that fit the bounds. */
function labelsOf(object: KubernetesObject): ReadonlyMap<string, string> {
  const labels = new Map<string, string>()
  const table = at(object, 'metadata.labels')
  if (typeof table !== 'object' || table === null) return labels
  let left = maxLabelText
  for (const [name, value] of Object.entries(table)) {
    if (typeof value !== 'string' || name.length + value.length > left) continue
    labels.set(name, value)
    left -= name.length + value.length
    if (labels.size === maxLabels) break
  }
  return labels
}

/** Owners that fit the bounds, the controller first. */
function ownersOf(object: KubernetesObject): readonly Owner[] {
  const owners = listAt(object, 'metadata.ownerReferences')
    .map((reference) => ({ isController: reference.controller === true, owner: toOwner(reference) }))
    .filter(({ owner: { uid, kind, name } }) => [uid, kind, name].every((text) => text && text.length <= maxName))
  const controller = owners.find(({ isController }) => isController)
  const rest = owners.filter((one) => one !== controller)
  let left = maxOwnerText
  return [...(controller ? [controller] : []), ...rest]
    .slice(0, 1 + maxOwners)
    .map(({ owner }) => owner)
    .filter(({ uid, kind, name }) => {
      left -= uid.length + kind.length + name.length
      return left >= 0
    })
}

function toOwner(reference: KubernetesObject): Owner {
  return { uid: textAt(reference, 'uid'), kind: kindOf(reference), name: textAt(reference, 'name') }
}
