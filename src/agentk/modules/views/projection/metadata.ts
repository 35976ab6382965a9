import { at, type KubernetesObject, kindOf, listAt, numberAt, textAt } from '../../../../kubernetes/object.ts'
import { maxLabels, maxLabelText, maxName, maxOwners, maxOwnerText } from './bounds.ts'
import type { Owner } from './projector.ts'

/** What objects of all kinds have. */
export interface Metadata {
  readonly uid: string
  readonly name: string
  readonly namespace: string
  readonly labels: ReadonlyMap<string, string>
  readonly owner: Owner | undefined
  readonly otherOwners: readonly Owner[]
  /** ms since 1970; 0: it does not say */
  readonly created: number
  /** of its spec; 0: it has none */
  readonly generation: number
}

/** The API server was asked for no more. */
export function isMetadataAlone(object: KubernetesObject): boolean {
  return object.kind === 'PartialObjectMetadata'
}

/** @returns undefined: it has no uid or name that could be one */
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

/** Those that fit. */
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

/** The controller first. */
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
