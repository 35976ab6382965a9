import { textAt } from '../../../../kubernetes/object.ts'
import type { Projector } from './projector.ts'

/** StatefulSets that are tried for a claim's name */
const maxSets = 16

export const persistentVolumeClaim: Projector = (object) => ({
  facts: [
    textAt(object, 'status.phase'),
    textAt(object, 'status.capacity.storage') || textAt(object, 'spec.resources.requests.storage'),
    textAt(object, 'spec.storageClassName'),
  ],
  references: [{ relation: 'binds', kind: 'PersistentVolume', namespace: '', name: textAt(object, 'spec.volumeName') }],
})

export const persistentVolume: Projector = (object) => ({
  facts: [
    textAt(object, 'status.phase'),
    textAt(object, 'spec.capacity.storage'),
    textAt(object, 'spec.storageClassName'),
  ],
  references: [
    {
      relation: 'binds',
      kind: 'PersistentVolumeClaim',
      namespace: textAt(object, 'spec.claimRef.namespace'),
      name: textAt(object, 'spec.claimRef.name'),
    },
  ],
})

/**
 * Returns the names of StatefulSets that may have made a claim. A claim is named `<template>-<set>-<n>`, and both names
 * may have dashes.
 *
 * @returns the longest first
 */
export function statefulSetsOf(claim: string): readonly string[] {
  const [, stem = ''] = /^(.+)-\d+$/.exec(claim) ?? []
  const parts = stem.split('-')
  return parts
    .slice(1, 1 + maxSets)
    .map((_, i) => parts.slice(i + 1).join('-'))
    .filter((name) => name !== '')
}
