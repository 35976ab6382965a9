import type { ObjectKey } from '../../../../kubernetes/key.ts'
import type { ResourceRule } from '../../../../proto/gitops/schema.ts'
import type { SourceOptions } from '../source-options.ts'
import { agentLabel, digestAnnotation, inventoryLabel, ownerAnnotation, sourceLabel } from './annotations.ts'
import type { ObjectTree } from './manifest.ts'

/** Scopes of kinds. */
export interface Scopes {
  /** undefined: the kind is not served */
  isNamespaced(group: string, kind: string): boolean | undefined
}

export type Reach = Pick<SourceOptions, 'namespaces' | 'resourceInclusions' | 'resourceExclusions'>

/**
 * Returns the reason for which the configuration excludes an object from its source; undefined: none. If a source has
 * made an object and a later configuration excludes it, the object is detached, and never pruned.
 */
export function outsideReach(key: ObjectKey, reach: Reach): string | undefined {
  const { namespaces, resourceInclusions, resourceExclusions } = reach
  if (namespaces && key.namespace === '') return 'cluster-wide objects are outside the namespaces of this source'
  if (namespaces && !namespaces.includes(key.namespace)) {
    return `namespace ${key.namespace} is outside the namespaces of this source`
  }
  if (resourceInclusions && !resourceInclusions.some((rule) => isOf(key, rule))) {
    return 'the kind is not among resource_inclusions'
  }
  return resourceExclusions.some((rule) => isOf(key, rule)) ? 'the kind is among resource_exclusions' : undefined
}

function isOf({ group, kind }: ObjectKey, { api_groups, kinds }: ResourceRule): boolean {
  const includes = (names: readonly string[], name: string) => names.includes('*') || names.includes(name)
  return includes(api_groups, group) && includes(kinds, kind)
}

const ownGroup = 'agent.gitlab.com'
const inventoryName = /^gitops-\d+-\d+(?:-|$)/
const leaseName = /^agent-\d+-lock$/

/** Returns why no repository may contain the object: it would control objects of others, or what agentk may do. */
export function reserved({ group, kind, name }: ObjectKey, object: ObjectTree): string | undefined {
  if (group === ownGroup && kind === 'GitSync') return 'a GitSync is made by agentk alone'
  if (group === '' && kind === 'ConfigMap' && inventoryName.test(name)) return `${name} is the name of an inventory`
  if (group === 'coordination.k8s.io' && kind === 'Lease' && leaseName.test(name)) return `${name} is a Lease of agentk`
  const metadata = object.metadata as Record<string, ObjectTree | null | undefined>
  const [labels, annotations] = [metadata.labels ?? {}, metadata.annotations ?? {}]
  if (ownerAnnotation in annotations) {
    return `annotation ${ownerAnnotation}: the object is of the inventory ${annotations[ownerAnnotation]}`
  }
  const marks = [inventoryLabel, digestAnnotation, sourceLabel, agentLabel]
  const mark = marks.find((mark) => mark in labels || mark in annotations)
  return mark && `${mark} is a mark that agentk makes`
}
