import { at, entryAt, isBeingDeleted, type KubernetesObject, listAt, textAt } from '../../../../kubernetes/object.ts'
import { digestAnnotation, ownerAnnotation, pruneOf } from '../manifests/annotations.ts'
import { holdsOf } from './deletion.ts'
import { entriesOf, fieldsHash, managersOf, ownEntry } from './managed-fields.ts'

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
  /** our manager has applied `spec.replicas` */
  readonly ownsReplicas: boolean
  /** who owns fields of it */
  readonly managers: readonly string[]
  /** a controller keeps it */
  readonly isControlled: boolean
  readonly isBeingDeleted: boolean
  /** what holds it then, as `holdsOf` */
  readonly holds: string
  /** as `pruneOf` */
  readonly prune: string
}

/** @param manager - ours */
export function liveObjectOf(object: KubernetesObject, manager: string): LiveObject {
  const entries = entriesOf(object)
  const own = ownEntry(entries, manager)
  const annotation = (name: string) => entryAt(object, 'metadata.annotations', name)
  return {
    uid: textAt(object, 'metadata.uid'),
    resourceVersion: textAt(object, 'metadata.resourceVersion'),
    owner: annotation(ownerAnnotation),
    digest: annotation(digestAnnotation),
    fields: own ? fieldsHash(own.fieldsV1) : '',
    ownsReplicas: at(own?.fieldsV1, 'f:spec.f:replicas') !== undefined,
    managers: managersOf(entries),
    isControlled: listAt(object, 'metadata.ownerReferences').some((owner) => at(owner, 'controller') === true),
    isBeingDeleted: isBeingDeleted(object),
    holds: holdsOf(object),
    prune: pruneOf(object),
  }
}
