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
  /** path of its number of replicas, from the manager that scaled it; `spec.replicas` if none did */
  readonly replicasPath: string
  /** the source's manager owns that number */
  readonly ownsReplicas: boolean
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

/** @param manager - the source's */
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
