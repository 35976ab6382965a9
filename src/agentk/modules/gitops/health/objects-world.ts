import { placeKey } from '../../../../kubernetes/key.ts'
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
import { findingsOf } from '../../../health/kas/findings.ts'
import { type Opinion, opinionOf, type RuleVerdicts } from '../../../health/kas/opinion.ts'
import { endsByEvents, type PodEnd } from '../../../health/kas/pod-ends.ts'
import { claimNamesOf, type LabelTable } from '../../../health/kas/read.ts'
import type { World } from '../../../health/kas/root-causes/judge.ts'

export interface ObjectsWorldComponents {
  /** all that was read, each object once, with its apiVersion and kind */
  readonly objects: Iterable<KubernetesObject>
  /** events about the objects, by the uid of the object that they name */
  readonly evidence: ReadonlyMap<string, readonly Evidence[]>
  /** verdicts of the rules of vendors and of Argo CD */
  readonly verdictsOf: (object: KubernetesObject) => RuleVerdicts
  /** true if all objects of a kind in a namespace were read */
  readonly isWhole: (kind: string, namespace: string) => boolean
  /** by the API server, in ms since 1970 */
  readonly now: number
}

const nothing: IsHidden = () => false
const none: readonly KubernetesObject[] = []
const templatePaths = ['spec.template.metadata.labels', 'spec.jobTemplate.spec.template.metadata.labels']

/**
 * Objects that an account has read of the cluster, for the rules of causes. They are of one moment. Nodes, endpoints of
 * Services and webhooks are not known: findings that need these are not made.
 */
export class ObjectsWorld implements World {
  readonly now: number
  readonly #components: ObjectsWorldComponents
  readonly #all: readonly KubernetesObject[]
  /** by `placeKey` */
  readonly #places: ReadonlyMap<string, KubernetesObject>
  /** by the owner's uid */
  readonly #owned = new Map<string, KubernetesObject[]>()
  readonly #findings = new Map<KubernetesObject, readonly Finding[]>()
  /** findings of rules for conditions, which are made with an opinion */
  readonly #ofOpinions: Finding[] = []

  constructor(components: ObjectsWorldComponents) {
    this.#components = components
    this.now = components.now
    this.#all = [...components.objects]
    this.#places = new Map(this.#all.map((one) => [placeKey(kindOf(one), namespaceOf(one), nameOf(one)), one]))
    for (const one of this.#all) {
      const owners = listAt(one, 'metadata.ownerReferences')
      const owner = owners.find((each) => at(each, 'controller') === true) ?? owners[0]
      const uid = textField(owner, 'uid')
      const known = this.#owned.get(uid)
      if (known) known.push(one)
      else if (uid !== '') this.#owned.set(uid, [one])
    }
  }

  eventsOf(object: KubernetesObject): readonly Evidence[] {
    return this.#components.evidence.get(uidOf(object)) ?? []
  }

  isLive(kind: string, namespace: string): boolean {
    return this.#components.isWhole(kind, namespace)
  }

  listTroubleOf(_kind: string): ListTrouble | undefined {
    return undefined
  }

  find(kind: string, namespace: string, name: string): KubernetesObject | undefined {
    return this.#places.get(placeKey(kind, namespace, name))
  }

  allOf(kind: ListedKind, namespace: string): readonly KubernetesObject[] {
    return this.#those(kind, namespace)
  }

  childrenOf(object: KubernetesObject): readonly KubernetesObject[] {
    const owned = this.#owned.get(uidOf(object)) ?? none
    return kindOf(object) === 'apps/StatefulSet' ? [...owned, ...this.#claimsOfSet(object)] : owned
  }

  failedOf(object: KubernetesObject): readonly KubernetesObject[] {
    return this.childrenOf(object).filter((one) => kindOf(one) === 'Pod' && textAt(one, 'status.reason') !== '')
  }

  endsOf(object: KubernetesObject): readonly PodEnd[] {
    const ofName = (pod: KubernetesObject) =>
      this.eventsOf(pod).map((one): readonly [string, Evidence] => [uidOf(pod), one])
    return endsByEvents(object, (set) => this.childrenOf(set), ofName)
  }

  podsOf(namespace: string, selector: LabelTable): readonly KubernetesObject[] {
    return this.#those('Pod', namespace).filter((pod) => isSelected(at(pod, 'metadata.labels'), selector))
  }

  workloadsOf(namespace: string, selector: LabelTable): readonly KubernetesObject[] {
    const isOf = (one: KubernetesObject) => templatePaths.some((path) => isSelected(at(one, path), selector))
    return this.#all.filter((one) => namespaceOf(one) === namespace && isOf(one))
  }

  slicesOf(_service: KubernetesObject): readonly KubernetesObject[] {
    return none
  }

  /** No taints are known: the scheduler's own words stay as they are. */
  taints(_namespace: string, _selector: LabelTable): Taints {
    return 'unread'
  }

  usersOf(claim: KubernetesObject): readonly KubernetesObject[] {
    const name = nameOf(claim)
    return this.#those('Pod', namespaceOf(claim)).filter((pod) => claimNamesOf(pod).includes(name))
  }

  /** Time at which time alone may change a finding that was made, in ms since 1970; undefined: never. */
  get dueAt(): number | undefined {
    const findings = [...[...this.#findings.values()].flat(), ...this.#ofOpinions]
    const times = findings.flatMap(({ due, until }) => [due ?? [], until ?? []].flat())
    const later = times.filter((time) => time > this.now)
    return later.length > 0 ? later.reduce((one, other) => Math.min(one, other)) : undefined
  }

  findingsOf(object: KubernetesObject): readonly Finding[] {
    let findings = this.#findings.get(object)
    if (!findings) {
      this.#findings.set(object, []) // an object that leads to itself finds nothing there
      findings = findingsOf(object, this)
      this.#findings.set(object, findings)
    }
    return findings
  }

  wordOf(object: KubernetesObject, isHidden: IsHidden = nothing): ArgoStatus {
    return this.opinionOf(object, this.before(object, isHidden)).word
  }

  before(object: KubernetesObject, isHidden: IsHidden = nothing): Finding | undefined {
    return this.findingsOf(object).find(({ needs }) => !needs.some(isHidden))
  }

  opinionOf(object: KubernetesObject, shown: Finding | undefined): Opinion {
    const opinion = opinionOf(object, shown, this.#components.verdictsOf(object), this.now)
    if (opinion.finding) this.#ofOpinions.push(opinion.finding)
    return opinion
  }

  apiServicesOf(_group: string): readonly KubernetesObject[] {
    return none
  }

  webhooksNamed(_name: string): readonly KubernetesObject[] {
    return none
  }

  webhooksOf(): readonly KubernetesObject[] {
    return none
  }

  definedOf(kind: string): readonly KubernetesObject[] {
    return this.#all.filter((one) => kindOf(one) === kind && isBeingDeleted(one))
  }

  unwellNodes(): readonly KubernetesObject[] {
    return none
  }

  deletedIn(namespace: string): readonly KubernetesObject[] {
    return this.#all.filter((one) => namespaceOf(one) === namespace && isBeingDeleted(one))
  }

  #those(kind: string, namespace: string): readonly KubernetesObject[] {
    return this.#all.filter((one) => kindOf(one) === kind && namespaceOf(one) === namespace)
  }

  /** Returns claims by their names: `<template>-<set>-<number>`. */
  #claimsOfSet(set: KubernetesObject): readonly KubernetesObject[] {
    const templates = listAt(set, 'spec.volumeClaimTemplates').map((one) => `${nameOf(one)}-${nameOf(set)}-`)
    const isOf = (name: string) =>
      templates.some((start) => name.startsWith(start) && /^\d{1,10}$/.test(name.slice(start.length)))
    return this.#those('PersistentVolumeClaim', namespaceOf(set)).filter((claim) => isOf(nameOf(claim)))
  }
}

function isSelected(labels: unknown, selector: LabelTable): boolean {
  return selector.every(([name, value]) => field(labels, name) === value)
}
