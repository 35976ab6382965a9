import { entriesOf, type ManagedEntry } from '../../../../../../src/agentk/modules/gitops/live/managed-fields.ts'
import { inventoryLabel, ownerAnnotation } from '../../../../../../src/agentk/modules/gitops/manifests/annotations.ts'

/** Objects and their managedFields, as an API server writes them. */

export const id = '42-7'
export const manager = `agentk-${id}`
export const leaf = {}

export type Entry = Readonly<Record<string, unknown>>

/** @param more - operation, time, subresource: other than an update at the first second */
export function entry(name: string, fieldsV1: object, more: object = {}): Entry {
  const usual = { operation: 'Update', apiVersion: 'v1', time: '2026-06-01T00:00:01Z', fieldsType: 'FieldsV1' }
  return { manager: name, ...usual, fieldsV1, ...more }
}

/** Returns the source's own entry, of its apply in the second 0. */
export function ownEntry(fieldsV1: object, more: object = {}): Entry {
  return entry(manager, fieldsV1, { operation: 'Apply', time: '2026-06-01T00:00:00Z', ...more })
}

export function entries(...managedFields: readonly Entry[]): readonly ManagedEntry[] {
  return entriesOf({ metadata: { managedFields } })
}

/** Returns an object with the source's marks. @param metadata - in addition */
export function object(content: object, managedFields: readonly Entry[], metadata: object = {}) {
  const marks = {
    labels: { [inventoryLabel]: id },
    annotations: { [ownerAnnotation]: id, 'agent.gitlab.com/digest': 'd1' },
  }
  return {
    metadata: { name: 'web', uid: 'u1', resourceVersion: '7', ...marks, managedFields, ...metadata },
    ...content,
  }
}

/** True for managers that the default of `added_by` matches. */
export const isAdder = (name: string) => /^(?:kubectl.*|k9s|node-fetch|Mozilla)$/.test(name)
