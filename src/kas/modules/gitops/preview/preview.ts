import type { PreviewEnd, PreviewedObject } from '../../../../proto/gen/gitops_preview_pb.ts'

/** Effect of a change on the cluster, as far as its caller may get the objects. */
export interface Preview {
  /** id of the source */
  readonly source: string
  readonly objects: readonly PreviewedObject[]
  readonly end: PreviewEnd
}

/** True if the change would do something: `stays` and `drifted` are no changes. */
export function hasChanges({ created, changed, adopted, recreated, deleted, waiting }: PreviewEnd): boolean {
  return created + changed + adopted + recreated + deleted + waiting > 0
}

/** True if agentk would refuse the commit, or an object of it. */
export function isRefused({ refusal, failing }: PreviewEnd): boolean {
  return refusal !== undefined || failing > 0
}

/** True if nothing could be compared, or if it is not known what was not. */
export function isUnknown({ objects, notCompared, problem }: PreviewEnd): boolean {
  return problem !== '' || (objects > 0 && notCompared >= objects)
}
