import {
  at,
  field,
  isBeingDeleted,
  type KubernetesObject,
  kindOf,
  listAt,
  nameOf,
  namespaceOf,
  textAt,
  textField,
  uidOf,
} from '../../../../kubernetes/object.ts'
import type { ArgoStatus } from '../../../health/argo/health.ts'
import type { IsHidden, ListedKind, ListTrouble, Taints } from '../../../health/kas/around.ts'
import type { Evidence } from '../../../health/kas/evidence.ts'
import type { Finding } from '../../../health/kas/finding.ts'
import type { Opinion } from '../../../health/kas/opinion.ts'
import type { PodEnd } from '../../../health/kas/pod-ends.ts'
import type { LabelTable } from '../../../health/kas/read.ts'
import type { World } from '../../../health/kas/root-causes/judge.ts'
import { webhookKinds } from '../../../health/kas/webhooks.ts'
import { type Choice, chosenOf } from './judgement.ts'
import { customParentsOf } from './object-record.ts'
import type { ObjectRecord, Place, ReadonlyRecords } from './record.ts'

/**
 * Bound of objects that are read: a Service's Pods, a claim's users, an object's children, and objects being deleted.
 */
export const maxRead = 500
const apiServiceKey = 'apiregistration.k8s.io/APIService'
const podKey = 'Pod'
const nodeKey = 'Node'
/** different taints of nodes that are read */
const maxTaints = 64
const claimKey = 'PersistentVolumeClaim'
const sliceKey = 'discovery.k8s.io/EndpointSlice'
/** Kinds that make Pods from a template. */
export const templateKinds = [
  'apps/Deployment',
  'apps/StatefulSet',
  'apps/DaemonSet',
  'apps/ReplicaSet',
  'ReplicationController',
  'batch/CronJob',
  'batch/Job',
] as const

export interface RecordsWorldComponents {
  readonly records: ReadonlyRecords
  /** ms since 1970, by the API server */
  readonly now: () => number
}

const nothing: IsHidden = () => false

/**
 * Gives the rules of causes what they read of other objects, from records. It is of one moment: each object is read
 * once.
 */
export class RecordsWorld implements World {
  protected readonly records: ReadonlyRecords
  readonly #components: RecordsWorldComponents
  readonly #objects = new Map<string, KubernetesObject>()
  /** by namespace */
  #places: ReadonlyMap<string, readonly { readonly kind: ObjectRecord['kind'] }[]> | undefined
  #nodes: readonly KubernetesObject[] | undefined
  #read = 0

  constructor(components: RecordsWorldComponents) {
    this.records = components.records
    this.#components = components
  }

  get now(): number {
    return this.#components.now()
  }

  /** Number of objects that were read. */
  get read(): number {
    return this.#read
  }

  /** Forgets the objects that were read: they are read again. */
  forget(): void {
    this.#objects.clear()
    this.#places = undefined
    this.#nodes = undefined
  }

  eventsOf(_object: KubernetesObject): readonly Evidence[] {
    return []
  }

  isLive(_kind: string, _namespace: string): boolean {
    return false
  }

  listTroubleOf(_kind: string): ListTrouble | undefined {
    return undefined
  }

  find(kind: string, namespace: string, name: string): KubernetesObject | undefined {
    const record = this.records.named(kind, namespace, name)
    return record && this.objectOf(record)
  }

  childrenOf(object: KubernetesObject): readonly KubernetesObject[] {
    const parent = this.placeOf(object)
    return this.first(this.records.claiming(parent), (child) => this.#isChild(child, parent))
  }

  allOf(kind: ListedKind, namespace: string): readonly KubernetesObject[] {
    return this.first(this.records.inNamespace(kind, namespace), () => true)
  }

  failedOf(object: KubernetesObject): readonly KubernetesObject[] {
    const parent = this.placeOf(object)
    const hasFailed = (child: ObjectRecord) =>
      child.kind.key === podKey && textAt(child.traits, 'status.reason') !== '' && this.#isChild(child, parent)
    return this.first(this.records.claiming(parent), hasFailed)
  }

  endsOf(_object: KubernetesObject): readonly PodEnd[] {
    return []
  }

  definedOf(kind: string): readonly KubernetesObject[] {
    const places = [...this.records.places()].filter((place) => place.kind.key === kind)
    const isJudged = ({ uid }: ObjectRecord) => this.records.judged(uid) !== undefined
    const all = places.flatMap(({ namespace }) => this.first(this.records.inNamespace(kind, namespace), isJudged))
    return all.filter(isBeingDeleted).slice(0, maxRead)
  }

  webhooksOf(): readonly KubernetesObject[] {
    return webhookKinds.flatMap((kind) => this.first(this.records.inNamespace(kind, ''), () => true))
  }

  unwellNodes(): readonly KubernetesObject[] {
    const isJudged = ({ uid }: ObjectRecord) => this.records.judged(uid) !== undefined
    const nodes = this.#nodes ?? this.first(this.records.inNamespace(nodeKey, ''), isJudged)
    if (!this.isSpent) this.#nodes = nodes
    return nodes
  }

  /** True if no more may be read for the current question: lists end early then. */
  protected get isSpent(): boolean {
    return false
  }

  podsOf(namespace: string, selector: LabelTable): readonly KubernetesObject[] {
    return this.first(this.records.inNamespace(podKey, namespace), ({ labels }) =>
      selector.every(([name, value]) => labels.get(name) === value),
    )
  }

  taints(_namespace: string, selector: LabelTable): Taints {
    return this.taintsOf(selector)
  }

  protected taintsOf(selector: LabelTable): readonly KubernetesObject[] | undefined {
    const all = new Map<string, KubernetesObject>()
    let isAny = false
    for (const { labels, traits } of this.records.inNamespace(nodeKey, '')) {
      this.count()
      if (!selector.every(([name, value]) => labels.get(name) === value)) continue
      isAny = true
      for (const taint of listAt(traits, 'spec.taints')) all.set(JSON.stringify(taint), taint)
      if (all.size >= maxTaints) break
    }
    return isAny ? [...all.values()] : undefined
  }

  workloadsOf(namespace: string, selector: LabelTable): readonly KubernetesObject[] {
    return templateKinds.flatMap((kind) =>
      this.first(this.records.inNamespace(kind, namespace), ({ traits }) => isOfTemplate(traits, selector)),
    )
  }

  slicesOf(service: KubernetesObject): readonly KubernetesObject[] {
    const place = this.placeOf(service)
    return this.first(this.records.claiming(place), (one) => isSliceOf(one, place))
  }

  usersOf(claim: KubernetesObject): readonly KubernetesObject[] {
    const users = this.records.naming(claimKey, namespaceOf(claim), nameOf(claim))
    return this.first(users, ({ kind }) => kind.key === podKey)
  }

  apiServicesOf(group: string): readonly KubernetesObject[] {
    const isOf = ({ name }: ObjectRecord) => name.slice(name.indexOf('.') + 1) === group
    return this.first(this.records.inNamespace(apiServiceKey, ''), isOf)
  }

  webhooksNamed(name: string): readonly KubernetesObject[] {
    return this.webhooksOf().filter((one) =>
      listAt(one, 'webhooks').some((webhook) => textField(webhook, 'name') === name),
    )
  }

  deletedIn(namespace: string): readonly KubernetesObject[] {
    this.#places ??= Map.groupBy(this.records.places(), (place) => place.namespace)
    const places = this.#places.get(namespace) ?? []
    const all = places.flatMap(({ kind }) =>
      this.first(this.records.inNamespace(kind.key, namespace), ({ uid }) => this.records.judged(uid) !== undefined),
    )
    return all.filter(isBeingDeleted).slice(0, maxRead)
  }

  findingsOf(object: KubernetesObject): readonly Finding[] {
    return (this.records.judged(uidOf(object)) ?? []).flatMap(({ finding, needs }) =>
      finding ? [{ ...finding, needs }] : [],
    )
  }

  wordOf(object: KubernetesObject, isHidden: IsHidden = nothing): ArgoStatus {
    return this.#choice(object, isHidden)?.word ?? 'Healthy'
  }

  before(object: KubernetesObject, isHidden: IsHidden = nothing): Finding | undefined {
    return this.#choice(object, isHidden)?.finding
  }

  opinionOf(object: KubernetesObject, shown: Finding | undefined): Opinion {
    const uid = uidOf(object)
    const judgement = this.records.judged(uid)
    const choice = judgement?.find(({ finding }) => finding?.reason === shown?.reason && finding?.text === shown?.text)
    const { word, finding, by } = choice ?? {}
    return { word: word ?? 'Healthy', finding, by: by ?? this.records.get(uid)?.health?.by ?? 'nobody' }
  }

  protected count(): void {
    this.#read++
  }

  protected objectOf(record: ObjectRecord): KubernetesObject {
    let object = this.#objects.get(record.uid)
    if (!object) {
      object = this.partsOf(record)
      this.#objects.set(record.uid, object)
    }
    return object
  }

  /** Returns the fields of an object that rules read. */
  protected partsOf(record: ObjectRecord): KubernetesObject {
    return this.records.objectOf(record)
  }

  #choice(object: KubernetesObject, isHidden: IsHidden): Choice | undefined {
    return chosenOf(this.records.judged(uidOf(object)), (need) => !isHidden(need))
  }

  protected placeOf(object: KubernetesObject): Place {
    return {
      uid: uidOf(object),
      name: nameOf(object),
      namespace: namespaceOf(object),
      kind: { key: kindOf(object) },
    }
  }

  /** True if the object is a child, without regard to the rights of callers; the parent may not be there yet. */
  #isChild(child: ObjectRecord, parent: Place): boolean {
    const { owner, namespace } = child
    const { kind, name } = parent
    const isNear = parent.namespace === '' || parent.namespace === namespace
    if (owner) return isNear && owner.uid === parent.uid && owner.kind === kind.key && owner.name === name
    for (const custom of customParentsOf(child)) {
      if (custom.kind === kind.key && custom.name === name) return namespace === parent.namespace
      if (this.records.named(custom.kind, namespace, custom.name)) return false
    }
    return false
  }

  /** Reads objects that match, at most `maxRead`. */
  protected first(records: Iterable<ObjectRecord>, isIt: (record: ObjectRecord) => boolean): KubernetesObject[] {
    const found: KubernetesObject[] = []
    for (const record of records) {
      this.count()
      if (!isIt(record)) continue
      found.push(this.objectOf(record))
      if (found.length === maxRead) break
    }
    return found
  }
}

function isOfTemplate(traits: KubernetesObject | undefined, selector: LabelTable): boolean {
  const template = at(traits, 'spec.template') ?? at(traits, 'spec.jobTemplate.spec.template')
  const labels = at(template, 'metadata.labels')
  return selector.every(([name, value]) => field(labels, name) === value)
}

/** Name of the Service that a slice belongs to; undefined: none. */
export function serviceOf({ kind, owner, customParent }: ObjectRecord): string | undefined {
  if (kind.key !== sliceKey) return undefined
  const parent = owner ?? customParent
  return parent?.kind === 'Service' ? parent.name : undefined
}

const isSliceOf = (record: ObjectRecord, service: Place) =>
  record.namespace === service.namespace && serviceOf(record) === service.name
