import {
  at,
  entryAt,
  isBeingDeleted,
  type KubernetesObject,
  listAt,
  numberAt,
  textAt,
} from '../../../../kubernetes/object.ts'
import { digestAnnotation, ownerAnnotation, pruneOf } from '../manifests/annotations.ts'
import { isLeftAlone } from '../manifests/left-alone.ts'
import { holdsOf } from './deletion.ts'
import {
  entriesOf,
  fieldsHash,
  haveWrittenSince,
  type IgnoredOf,
  isEmpty,
  leftToOthers,
  type ManagedEntry,
  managersOf,
  nothingIgnored,
  ownEntry,
  ownsField,
  scaledPath,
  usualReplicasPath,
} from './managed-fields.ts'

/** Limit of an annotation that is kept: ids and digests are shorter. Anybody who may write an object can set 256 KiB. */
const maxMarkLength = 300
/** Stands for a longer one, which is the mark of no source. */
const longMark = `more than ${maxMarkLength} characters`

/** Limit of the managers of a number of replicas that are kept: anybody who may write an object can forge more. */
const maxReplicasOwners = 5

/** Another manager that owns the number of replicas. */
export interface ReplicasOwner {
  readonly manager: string
  /** it has set the number through the subresource `scale` */
  readonly isScale: boolean
}

/** Metadata of an object in the cluster, as far as a source needs it. */
export interface LiveObject {
  readonly uid: string
  readonly resourceVersion: string
  /** id of the source that has made it; empty: not set */
  readonly owner: string
  /** of the manifest that was applied last; empty: none */
  readonly digest: string
  /** hash of the fields that the source's manager has applied; empty: none */
  readonly fields: string
  /** time of that apply, by the API server's clock: RFC 3339; empty: it has none */
  readonly fieldsTime: string
  /** `metadata.generation`; 0: its kind has none */
  readonly generation: number
  /** path of its number of replicas, from the manager that scaled it; `spec.replicas` if none did */
  readonly replicasPath: string
  /** the source's manager owns that number */
  readonly ownsReplicas: boolean
  /** the first other managers that own that number; absent: none */
  readonly replicasOwners?: readonly ReplicasOwner[]
  /** another manager has written it since that apply, not only its status: its generation may differ for that */
  readonly hasOtherWriters: boolean
  /** hash of the fields that rules of the source leave to other managers; absent: there are none */
  readonly ignored?: string
  /** one of these rules leaves the number of replicas to another manager */
  readonly leavesReplicas?: true
  /** managers of its fields */
  readonly managers: readonly string[]
  /** it has a controller */
  readonly isControlled: boolean
  readonly isBeingDeleted: boolean
  /** text of `holdsOf`: reason for which it still exists */
  readonly holds: string
  /** an annotation of Flux on it prevents applies */
  readonly isLeftAlone: boolean
  /** as `pruneOf` */
  readonly prune: string
}

/** @param manager - the source's. @param ignoredOf - its rules, with an index of a list as any item */
export function liveObjectOf(
  object: KubernetesObject,
  manager: string,
  ignoredOf: IgnoredOf = nothingIgnored,
): LiveObject {
  const entries = entriesOf(object)
  const own = ownEntry(entries, manager)
  const replicasPath = scaledPath(entries) ?? usualReplicasPath
  const ignored = leftToOthers(entries, manager, ignoredOf)
  const replicasOwners = ownersOfReplicas(entries, own, replicasPath)
  const kept = (mark: string) => (mark.length > maxMarkLength ? longMark : mark)
  const annotation = (name: string) => kept(entryAt(object, 'metadata.annotations', name))
  return {
    uid: textAt(object, 'metadata.uid'),
    resourceVersion: textAt(object, 'metadata.resourceVersion'),
    owner: annotation(ownerAnnotation),
    digest: annotation(digestAnnotation),
    fields: own ? fieldsHash(own.fieldsV1) : '',
    fieldsTime: textAt(own, 'time'),
    generation: numberAt(object, 'metadata.generation') ?? 0,
    replicasPath,
    ownsReplicas: own !== undefined && ownsField(own, replicasPath),
    ...(replicasOwners.length > 0 && { replicasOwners }),
    hasOtherWriters: own !== undefined && haveWrittenSince(entries, own),
    ...(!isEmpty(ignored) && { ignored: fieldsHash(ignored) }),
    ...(ownsField({ fieldsV1: ignored }, replicasPath) && { leavesReplicas: true as const }),
    managers: managersOf(entries),
    isControlled: listAt(object, 'metadata.ownerReferences').some((owner) => at(owner, 'controller') === true),
    isBeingDeleted: isBeingDeleted(object),
    holds: holdsOf(object),
    isLeftAlone: isLeftAlone(object),
    prune: kept(pruneOf(object)),
  }
}

function ownersOfReplicas(
  entries: readonly ManagedEntry[],
  own: ManagedEntry | undefined,
  path: string,
): readonly ReplicasOwner[] {
  const others = entries.filter((entry) => entry !== own && ownsField(entry, path))
  return others.slice(0, maxReplicasOwners).map((entry) => ({
    manager: textAt(entry, 'manager'),
    isScale: textAt(entry, 'subresource') === 'scale',
  }))
}
