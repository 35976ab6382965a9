import { isDeepStrictEqual } from 'node:util'
import { apiVersionOf, parseKindKey, type ResourceKind } from '../../../../kubernetes/kind.ts'
import type { KubernetesObject } from '../../../../kubernetes/object.ts'
import { applicationOf } from '../projection/application.ts'
import type { Environments } from '../projection/environments.ts'
import { isMetadataAlone, type Metadata } from '../projection/metadata.ts'
import { traitsOf } from '../projection/parts.ts'
import { projectionOf } from '../projection/projection.ts'
import type { Owner } from '../projection/projector.ts'
import { statefulSetsOf } from '../projection/storage.ts'
import type { Interned } from './interned.ts'
import { type CommonRecordParts, recordFields } from './kept-record.ts'
import type { Health, ObjectRecord } from './record.ts'

/** What is kept of an object, of which all but uid and name may be shared. */
export function recordOf(
  {
    kind,
    object,
    metadata,
    health,
    environments,
  }: {
    readonly kind: ResourceKind
    readonly object: KubernetesObject
    readonly metadata: Metadata
    readonly health: Health | undefined
    readonly environments: Environments
  },
  { interned, common }: { readonly interned: Interned; readonly common: CommonRecordParts },
): ObjectRecord {
  const { uid, name, namespace, labels, owner, otherOwners, created, generation } = metadata
  const { facts, selector, references, customParent, node } = projectionOf(kind.key, object)
  const { application, claim } = applicationOf(kind.key, object)
  const traits = isMetadataAlone(object) ? undefined : traitsOf(kind.key, object)
  // a StatefulSet names each Pod in its labels too
  const textOf = (value: string) => (value === name ? name : interned.text(value))
  const shared = [...labels].map(([label, value]) => [interned.text(label), textOf(value)] as const)
  return common.record({
    uid,
    name,
    namespace: interned.text(namespace),
    kind,
    labels: interned.value(new Map(shared), shared),
    owner: owner && interned.value(owner),
    otherOwners: interned.value(otherOwners),
    customParent: owner ? undefined : customParent && interned.value(customParent),
    created,
    generation,
    node: interned.text(node),
    health: health && interned.value(health),
    facts: interned.value(facts),
    selector: selector && interned.value(selector),
    references: interned.repeated(references),
    traits: traits && interned.value(traits),
    environment: interned.text(environments.of(object)),
    application: interned.text(application),
    claim: claim && interned.value(claim),
  })
}

export function areEqual(one: ObjectRecord, other: ObjectRecord): boolean {
  for (const field of recordFields) {
    if (one[field] !== other[field] && !isDeepStrictEqual(one[field], other[field])) return false
  }
  return true
}

/** Adds what others may share with it. */
export function addShared(record: ObjectRecord, live: Set<string | object>): void {
  const { namespace, node, environment, application, labels, owner, otherOwners } = record
  const { customParent, health, facts, selector, references, traits, claim } = record
  live.add(namespace).add(node).add(environment).add(application).add(otherOwners).add(facts).add(references)
  if (owner) live.add(owner)
  if (customParent) live.add(customParent)
  if (claim) live.add(claim)
  if (health) live.add(health)
  if (selector) live.add(selector)
  if (traits) live.add(traits)
  if (live.has(labels)) return
  live.add(labels)
  for (const [name, value] of labels) live.add(name).add(value)
}

const claim = 'PersistentVolumeClaim'
const statefulSet = 'apps/StatefulSet'

/** Parents of one without owners, in its namespace, by its kind's custom. A claim's name is of several StatefulSets. */
export function customParentsOf(record: ObjectRecord): readonly Omit<Owner, 'uid'>[] {
  const { owner, customParent, kind } = record
  if (customParent) return [customParent]
  if (owner || kind.key !== claim) return []
  return statefulSetsOf(record.name).map((name) => ({ kind: statefulSet, name }))
}

/** As much of an object as others are judged by. */
export function traitObject({ uid, name, namespace, kind, created, selector, traits }: ObjectRecord): KubernetesObject {
  const creationTimestamp = created > 0 ? { creationTimestamp: new Date(created).toISOString() } : {}
  const metadata = { name, namespace, uid, ...creationTimestamp, ...(traits?.metadata as object | undefined) }
  const spec = selector ? { spec: { selector: Object.fromEntries(selector.labels) } } : {}
  return {
    ...spec,
    ...traits,
    apiVersion: apiVersionOf(kind),
    kind: parseKindKey(kind.key).kind,
    metadata,
  }
}
