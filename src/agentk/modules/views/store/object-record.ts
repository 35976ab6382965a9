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
import type { Health, ObjectRecord } from './record.ts'

/** Returns the record of an object. Everything but uid and name may be shared. */
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
  // a StatefulSet puts the name of each Pod into its labels, too
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

/** Adds the parts of a record that other records may share. */
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

/**
 * Parents of an object without owners, in its namespace, by its kind's custom. A claim's name fits several
 * StatefulSets.
 */
export function customParentsOf(record: ObjectRecord): readonly Omit<Owner, 'uid'>[] {
  const { owner, customParent, kind } = record
  if (customParent) return [customParent]
  if (owner || kind.key !== claim) return []
  return statefulSetsOf(record.name).map((name) => ({ kind: statefulSet, name }))
}

/** Label with the revision of a StatefulSet's or a DaemonSet's Pod. */
const revisionLabel = 'controller-revision-hash'

/** Returns the fields of an object by which others are judged. */
export function traitObject(record: ObjectRecord): KubernetesObject {
  const { uid, name, namespace, kind, created, selector, traits, node } = record
  const creationTimestamp = created > 0 ? { creationTimestamp: new Date(created).toISOString() } : {}
  const revision = record.labels.get(revisionLabel)
  const labels = revision === undefined ? {} : { labels: { [revisionLabel]: revision } }
  const metadata = {
    name,
    namespace,
    uid,
    ...creationTimestamp,
    ...labels,
    ...(traits?.metadata as object | undefined),
  }
  const { spec: ownSpec, ...others } = traits ?? {}
  const spec = {
    ...(selector ? { selector: Object.fromEntries(selector.labels) } : {}),
    ...(node === '' ? {} : { nodeName: node }),
    ...(ownSpec as object | undefined),
  }
  return {
    ...(Object.keys(spec).length > 0 ? { spec } : {}),
    ...others,
    apiVersion: apiVersionOf(kind),
    kind: parseKindKey(kind.key).kind,
    metadata,
  }
}

/** Fields that are the same in Pods of one template. */
const commonFields = [
  'namespace',
  'kind',
  'labels',
  'owner',
  'otherOwners',
  'customParent',
  'selector',
  'references',
  'environment',
  'application',
  'claim',
] as const
const ownFields = ['uid', 'name', 'created', 'generation', 'node', 'health', 'facts', 'traits'] as const

type CommonParts = Pick<ObjectRecord, (typeof commonFields)[number]>
type OwnParts = Pick<ObjectRecord, (typeof ownFields)[number]>

/** All fields of a record. */
export const recordFields = [...ownFields, ...commonFields]

/** Shares these fields among records: a record then takes half the memory. */
export class CommonRecordParts {
  /** fields of the last record with these labels; equal labels are one object */
  readonly #byLabels = new Map<ObjectRecord['labels'], CommonParts>()

  record(parts: ObjectRecord): ObjectRecord {
    const known = this.#byLabels.get(parts.labels)
    if (known && commonFields.every((field) => known[field] === parts[field])) return new KeptRecord(parts, known)
    const common = commonOf(parts)
    this.#byLabels.set(parts.labels, common)
    return new KeptRecord(parts, common)
  }

  /** @param live - labels that records have */
  sweep(live: ReadonlySet<string | object>): void {
    for (const labels of this.#byLabels.keys()) if (!live.has(labels)) this.#byLabels.delete(labels)
  }
}

/** Returns the record with other parts. */
export function recordWith(record: ObjectRecord, changes: Partial<ObjectRecord>): ObjectRecord {
  const isCommon = commonFields.some((field) => field in changes)
  const own = Object.fromEntries(ownFields.map((field) => [field, record[field]])) as unknown as OwnParts
  if (!isCommon && record instanceof KeptRecord) return new KeptRecord({ ...own, ...changes }, record.common)
  return new KeptRecord({ ...own, ...changes }, commonOf({ ...commonOf(record), ...changes }))
}

// written out, since an object made field by field takes more memory
function commonOf(parts: CommonParts): CommonParts {
  const { namespace, kind, labels, owner, otherOwners, customParent } = parts
  const { selector, references, environment, application, claim } = parts
  return {
    namespace,
    kind,
    labels,
    owner,
    otherOwners,
    customParent,
    selector,
    references,
    environment,
    application,
    claim,
  }
}

const secondMs = 1000

class KeptRecord implements ObjectRecord {
  readonly uid: string
  readonly name: string
  /** seconds, since ms would be a heap number beside the record */
  readonly #createdSeconds: number
  readonly generation: number
  readonly node: string
  readonly health: ObjectRecord['health']
  readonly facts: ObjectRecord['facts']
  readonly traits: ObjectRecord['traits']
  readonly common: CommonParts

  constructor({ uid, name, created, generation, node, health, facts, traits }: OwnParts, common: CommonParts) {
    this.uid = uid
    this.name = name
    this.#createdSeconds = created / secondMs
    this.generation = generation
    this.node = node
    this.health = health
    this.facts = facts
    this.traits = traits
    this.common = common
  }

  get created() {
    return Math.round(this.#createdSeconds * secondMs)
  }

  get namespace() {
    return this.common.namespace
  }

  get kind() {
    return this.common.kind
  }

  get labels() {
    return this.common.labels
  }

  get owner() {
    return this.common.owner
  }

  get otherOwners() {
    return this.common.otherOwners
  }

  get customParent() {
    return this.common.customParent
  }

  get selector() {
    return this.common.selector
  }

  get references() {
    return this.common.references
  }

  get environment() {
    return this.common.environment
  }

  get application() {
    return this.common.application
  }

  get claim() {
    return this.common.claim
  }
}
