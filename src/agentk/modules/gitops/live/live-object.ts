import { at, entryAt, isBeingDeleted, type KubernetesObject, listAt, textAt } from '../../../../kubernetes/object.ts'
import { digestAnnotation, ownerAnnotation, pruneOf } from '../manifests/annotations.ts'
import { isLeftAlone } from '../manifests/left-alone.ts'
import { holdsOf } from './deletion.ts'
import {
  entriesOf,
  fieldsHash,
  managersOf,
  ownEntry,
  ownsField,
  scaledPath,
  usualReplicasPath,
} from './managed-fields.ts'

/** What the metadata of an object in the cluster says, as far as a source needs it. */
export interface LiveObject {
  readonly uid: string
  readonly resourceVersion: string
  /** id of the source that has made it; empty: it says nothing */
  readonly owner: string
  /** of the manifest that was applied last; empty: none was */
  readonly digest: string
  /** hash of what our manager has applied; empty: nothing */
  readonly fields: string
  /** where its number of replicas stands, as those say who have scaled it; `spec.replicas` if nobody has */
  readonly replicasPath: string
  /** our manager has applied that number */
  readonly ownsReplicas: boolean
  /** who owns fields of it */
  readonly managers: readonly string[]
  /** a controller keeps it */
  readonly isControlled: boolean
  readonly isBeingDeleted: boolean
  /** what holds it then, as `holdsOf` */
  readonly holds: string
  /** an annotation of Flux on it keeps it from being applied */
  readonly isLeftAlone: boolean
  /** as `pruneOf` */
  readonly prune: string
}

/** @param manager - ours */
export function liveObjectOf(object: KubernetesObject, manager: string): LiveObject {
  const entries = entriesOf(object)
  const own = ownEntry(entries, manager)
  const replicasPath = scaledPath(entries) ?? usualReplicasPath
  const annotation = (name: string) => entryAt(object, 'metadata.annotations', name)
  return {
    uid: textAt(object, 'metadata.uid'),
    resourceVersion: textAt(object, 'metadata.resourceVersion'),
    owner: annotation(ownerAnnotation),
    digest: annotation(digestAnnotation),
    fields: own ? fieldsHash(own.fieldsV1) : '',
    replicasPath,
    ownsReplicas: own !== undefined && ownsField(own, replicasPath),
    managers: managersOf(entries),
    isControlled: listAt(object, 'metadata.ownerReferences').some((owner) => at(owner, 'controller') === true),
    isBeingDeleted: isBeingDeleted(object),
    holds: holdsOf(object),
    isLeftAlone: isLeftAlone(object),
    prune: pruneOf(object),
  }
}
