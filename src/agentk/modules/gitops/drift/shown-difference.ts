import type { ObjectKey } from '../../../../kubernetes/key.ts'
import { printableJson } from '../../../../lib/printable.ts'
import type { DifferenceKind } from '../finding.ts'
import { type ManagedPath, pathText } from '../live/managed-path.ts'
import { ownerAnnotation, pruneAnnotation, replaceAnnotation } from '../manifests/annotations.ts'
import { hiddenValue, isSecret } from '../manifests/secrets.ts'
import type { Blame } from './blame.ts'
import type { FieldDifference } from './differences.ts'

/** Limit of a path that is shown; the rest is cut. Characters */
export const maxPathLength = 500
/** Limit of a value that is shown, as JSON in UTF-8; the rest is cut: an image or a command fits. bytes */
export const maxValueBytes = 1024

/** Difference of one field, in a form with bounds. It shows no content of a Secret. */
export interface Difference {
  /**
   * `.spec.template.spec.containers[name="app"].image`, as the API server names fields in conflicts. Empty: the object
   * itself. `.data…`: content of a Secret
   */
  readonly path: string
  readonly kind: DifferenceKind
  /** Git's value, as JSON, or its beginning with `…`; absent: none; `***`: it is not shown */
  readonly before?: string
  /** live value, in the same form */
  readonly after?: string
  /** manager that changed it; `unknown`: the owners do not show it */
  readonly by: Blame | 'unknown'
  /** key in the content of a Secret: for users who may read that Secret, and for nobody else */
  readonly secretKey?: string
  /** rule of `ignore` that leaves the field to others */
  readonly rule?: string
}

/**
 * Returns a difference in a form with bounds.
 *
 * @param about.key - of the object: values of a Secret are masked
 * @param about.rule - of `ignore`; undefined: none
 */
export function shownDifference(
  { path, kind, before, after }: FieldDifference,
  { key, by, rule }: { readonly key: ObjectKey; readonly by: Blame | 'unknown'; readonly rule?: string | undefined },
): Difference {
  const isMasked = isSecret(key) && !isShownOfSecret(path)
  const textOf = (value: unknown) => (isMasked ? hiddenValue : cutText(printableJson(value), maxValueBytes))
  const secretKey = isSecret(key) ? contentKey(path) : undefined
  return {
    path: secretKey === undefined ? cutPath(pathText(path)) : `.${path[0]?.slice(2)}…`,
    kind,
    ...(before !== undefined && { before: textOf(before) }),
    ...(after !== undefined && { after: textOf(after) }),
    by,
    ...(secretKey !== undefined && { secretKey: cutPath(secretKey) }),
    ...(rule !== undefined && { rule }),
  }
}

/** Fields with the content of a Secret. */
const contentFields: ReadonlySet<string> = new Set(['f:data', 'f:stringData'])

/** Returns the key of a Secret's content that a path leads to. @returns undefined: it leads elsewhere */
function contentKey([first = '', second]: ManagedPath): string | undefined {
  return contentFields.has(first) && second !== undefined ? second.slice(2) : undefined
}

/** Annotations of agentk with values that say nothing about the content of a Secret, as its digest would. */
const shownAnnotations: ReadonlySet<string> = new Set([ownerAnnotation, pruneAnnotation, replaceAnnotation])
/** Fields of a Secret beside its metadata that are no content. */
const shownFields: ReadonlySet<string> = new Set(['f:type', 'f:immutable'])

/** True for a field of a Secret whose values are shown. Annotations of others are not: tools write tokens there. */
function isShownOfSecret(path: ManagedPath): boolean {
  const [first = '', second = '', third = ''] = path
  if (first !== 'f:metadata') return path.length === 0 || shownFields.has(first)
  return second === 'f:annotations' ? shownAnnotations.has(third.slice(2)) : second !== ''
}

function cutPath(text: string): string {
  return text.length <= maxPathLength ? text : `${text.slice(0, maxPathLength - 1).toWellFormed()}…`
}

/** @param maxBytes - of the text in UTF-8, without the mark of the cut */
function cutText(text: string, maxBytes: number): string {
  const bytes = Buffer.from(text)
  // the end may be half of a character
  return bytes.length <= maxBytes ? text : `${bytes.toString('utf8', 0, maxBytes).replace(/\ufffd+$/, '')}…`
}
