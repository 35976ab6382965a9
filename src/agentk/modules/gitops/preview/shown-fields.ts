import type { MessageInitShape } from '@bufbuild/protobuf'
import type { ObjectKey } from '../../../../kubernetes/key.ts'
import type { FieldSchema } from '../../../../proto/gen/gitops_drift_pb.ts'
import { maxDifferences } from '../drift/compare-answers.ts'
import { shownDifference } from '../drift/shown-difference.ts'
import { shownField } from '../manifests/secrets.ts'
import type { FieldChange } from './field-change.ts'
import { pathWithoutValues } from './path-values.ts'

export type ShownField = MessageInitShape<typeof FieldSchema>

/** Fields of one object as callers see them, up to a limit. */
export interface ShownFields {
  readonly listed: readonly ShownField[]
  /** number of the others */
  readonly more: number
}

/** Rule that holds a value of Git back. */
export interface IgnoredBy {
  readonly rule: string
  readonly manager: string
  /** `Apply` or `Update`; empty: not known */
  readonly operation: string
}

/**
 * Returns changes in a form with bounds. Contents of Secrets are masked.
 *
 * @param of.key - of the object that is sent to the API server
 * @param of.values - false: names and paths alone
 */
export function shownFields(
  changes: readonly (FieldChange & { readonly ignoredBy?: IgnoredBy })[],
  { key, values }: { readonly key: ObjectKey; readonly values: boolean },
): ShownFields {
  const listed = changes.slice(0, maxDifferences).map((change): ShownField => {
    const { ignoredBy } = change
    const { path: whole, kind, before, after, secretKey = '' } = shownDifference(change, { key, by: 'unknown' })
    const path = secretKey === '' ? shownField(key, whole) : whole
    if (!values) {
      const ignored = ignoredBy && { ...ignoredBy, rule: pathWithoutValues(ignoredBy.rule) }
      return { path: pathWithoutValues(path), kind, secretKey, ...ignored }
    }
    const shown = { ...(before !== undefined && { before }), ...(after !== undefined && { after }) }
    return { path, kind, ...shown, secretKey, ...ignoredBy }
  })
  return { listed, more: Math.max(0, changes.length - maxDifferences) }
}
