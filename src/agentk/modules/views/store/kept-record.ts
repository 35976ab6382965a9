import type { ObjectRecord } from './record.ts'

/** What Pods of one template have alike. */
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

/** Of all that is kept of an object. */
export const recordFields = [...ownFields, ...commonFields]

/** A record takes half the room where many have one of these. */
export class CommonRecordParts {
  /** the one that came last with these labels, which are one where they are equal */
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

/** The record with other parts. */
export function recordWith(record: ObjectRecord, changes: Partial<ObjectRecord>): ObjectRecord {
  const isCommon = commonFields.some((field) => field in changes)
  const own = Object.fromEntries(ownFields.map((field) => [field, record[field]])) as unknown as OwnParts
  if (!isCommon && record instanceof KeptRecord) return new KeptRecord({ ...own, ...changes }, record.common)
  return new KeptRecord({ ...own, ...changes }, commonOf({ ...commonOf(record), ...changes }))
}

// written out: made field by field it would take more room
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
  /** a time in ms would be a number of its own beside the record */
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
