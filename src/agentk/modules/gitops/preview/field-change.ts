import type { DifferenceKind } from '../finding.ts'
import type { ManagedPath } from '../live/managed-path.ts'
import { digestAnnotation, inventoryLabel, ownerAnnotation } from '../manifests/annotations.ts'
import { lastApplied } from '../manifests/normal-object.ts'

/** Field that a change sets, changes or removes. */
export interface FieldChange {
  readonly path: ManagedPath
  /** `added`: only Git has a value; `missing`: only the cluster has one */
  readonly kind: Extract<DifferenceKind, 'changed' | 'added' | 'missing' | 'reordered'>
  /** live value; undefined: none, or not known */
  readonly before: unknown
  /** Git's value; undefined: none */
  readonly after: unknown
}

/** Metadata that agentk writes itself, and what `kubectl apply` keeps of a manifest: no change of Git. */
const marks: ReadonlySet<string> = new Set([
  `f:metadata f:labels f:${inventoryLabel}`,
  `f:metadata f:annotations f:${ownerAnnotation}`,
  `f:metadata f:annotations f:${digestAnnotation}`,
  `f:metadata f:annotations f:${lastApplied}`,
])

/** True for a field that is never shown as a change of Git. */
export function isMark(path: ManagedPath): boolean {
  return marks.has(path.join(' '))
}
