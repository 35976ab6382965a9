import type { ArgoStatus } from '../../../src/agentk/health/argo/health.ts'
import type { IsHidden } from '../../../src/agentk/health/kas/around.ts'
import { type Evidence, evidenceOf, subjectOf } from '../../../src/agentk/health/kas/evidence.ts'
import type { Finding } from '../../../src/agentk/health/kas/finding.ts'
import { findingsOf } from '../../../src/agentk/health/kas/findings.ts'
import { type Opinion, opinionOf, type RuleVerdicts } from '../../../src/agentk/health/kas/opinion.ts'
import { endOfPod, endsByEvents, type PodEnd } from '../../../src/agentk/health/kas/pod-ends.ts'
import { claimNamesOf, labelTableOf } from '../../../src/agentk/health/kas/read.ts'
import { Judge, type Judged, type MayList, type World } from '../../../src/agentk/health/kas/root-causes/judge.ts'
import { webhookKinds } from '../../../src/agentk/health/kas/webhooks.ts'
import {
  at,
  entryAt,
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
} from '../../../src/kubernetes/object.ts'
import { parentsOf } from './parents.ts'

type Table = readonly (readonly [name: string, value: string])[]
type Index = Map<string, KubernetesObject[]>

/** limit of kept events of one object: the last ones */
const maxEvidence = 64

export interface SnapshotSource {
  /** the API server's time. ms since 1970 */
  readonly now: number
  /** objects as in the API server; a kind without any object counts as known and missing */
  readonly objects: readonly KubernetesObject[]
  /** events of core/v1 */
  readonly events: readonly KubernetesObject[]
  /** verdicts of users', vendors' and Argo CD's rules */
  readonly verdicts: (object: KubernetesObject) => RuleVerdicts
}

/** All objects of a cluster at one moment, with the data that findings and explanations read. */
export class Snapshot implements World {
  readonly now: number
  readonly #verdicts: SnapshotSource['verdicts']
  readonly #byPlace = new Map<string, KubernetesObject>()
  readonly #children = new Map<KubernetesObject, KubernetesObject[]>()
  readonly #evidence = new Map<string, Evidence[]>()
  readonly #ofName = new Map<string, (readonly [uid: string, evidence: Evidence])[]>()
  readonly #pods: Index = new Map()
  readonly #workloads: Index = new Map()
  readonly #slices: Index = new Map()
  readonly #users: Index = new Map()
  readonly #apiServices: Index = new Map()
  readonly #webhooks: Index = new Map()
  readonly #deleted: Index = new Map()
  readonly #findings = new Map<KubernetesObject, readonly Finding[]>()

  constructor({ now, objects, events, verdicts }: SnapshotSource) {
    this.now = now
    this.#verdicts = verdicts
    const sorted = sortedBy(objects, (object) => `${placeOf(object)}\n${uidOf(object)}`)
    for (const object of sorted) this.#index(object)
    for (const [child, parent] of parentsOf(sorted)) push(this.#children, parent, child)
    this.#read(events)
  }

  find(kind: string, namespace: string, name: string): KubernetesObject | undefined {
    return this.#byPlace.get(keyOf(kind, namespace, name))
  }

  listTroubleOf(): undefined {}

  isLive(_kind: string): boolean {
    return true
  }

  eventsOf(object: KubernetesObject): readonly Evidence[] {
    return this.#evidence.get(uidOf(object)) ?? this.#evidence.get(placeOf(object)) ?? []
  }

  allOf(kind: string, namespace?: string): readonly KubernetesObject[] {
    const isIn = (one: KubernetesObject) => namespace === undefined || namespaceOf(one) === namespace
    return [...this.#byPlace.values()].filter((one) => kindOf(one) === kind && isIn(one))
  }

  failedOf(object: KubernetesObject): readonly KubernetesObject[] {
    return this.childrenOf(object).filter(
      (one) => textAt(one, 'status.phase') === 'Failed' && textAt(one, 'status.reason') !== '',
    )
  }

  endsOf(object: KubernetesObject): readonly PodEnd[] {
    const children = this.childrenOf(object)
    const present = children.flatMap((one) => (kindOf(one) === 'Pod' ? (endOfPod(one, this.now) ?? []) : []))
    return [
      ...endsByEvents(
        object,
        () => children,
        (pod) => this.#ofName.get(placeOf(pod)) ?? [],
      ),
      ...present,
    ]
  }

  definedOf(kind: string): readonly KubernetesObject[] {
    return this.allOf(kind).filter(isBeingDeleted)
  }

  webhooksOf(): readonly KubernetesObject[] {
    return webhookKinds.flatMap((kind) => this.allOf(kind))
  }

  unwellNodes(): readonly KubernetesObject[] {
    return this.allOf('Node').filter((one) => this.findingsOf(one).length > 0)
  }

  childrenOf(object: KubernetesObject): readonly KubernetesObject[] {
    return this.#children.get(object) ?? []
  }

  podsOf(namespace: string, selector: Table): readonly KubernetesObject[] {
    if (selector.length === 0) return this.allOf('Pod', namespace)
    return selected(this.#pods, namespace, selector, labelsOf)
  }

  workloadsOf(namespace: string, selector: Table): readonly KubernetesObject[] {
    return selected(this.#workloads, namespace, selector, templateOf)
  }

  slicesOf(service: KubernetesObject): readonly KubernetesObject[] {
    return this.#slices.get(keyOf(namespaceOf(service), nameOf(service))) ?? []
  }

  taints(_namespace: string, selector: Table): readonly KubernetesObject[] | undefined {
    const all = [...this.#byPlace.values()].filter((one) => kindOf(one) === 'Node')
    const nodes = all.filter((node) => selector.every(([name, value]) => field(labelsOf(node), name) === value))
    return nodes.length === 0 ? undefined : nodes.flatMap((node) => listAt(node, 'spec.taints'))
  }

  usersOf(claim: KubernetesObject): readonly KubernetesObject[] {
    return this.#users.get(keyOf(namespaceOf(claim), nameOf(claim))) ?? []
  }

  apiServicesOf(group: string): readonly KubernetesObject[] {
    return this.#apiServices.get(group) ?? []
  }

  webhooksNamed(name: string): readonly KubernetesObject[] {
    return this.#webhooks.get(name) ?? []
  }

  deletedIn(namespace: string): readonly KubernetesObject[] {
    return this.#deleted.get(namespace) ?? []
  }

  before(_object: KubernetesObject): Finding | undefined {
    return undefined
  }

  findingsOf(object: KubernetesObject): readonly Finding[] {
    let findings = this.#findings.get(object)
    if (!findings) {
      findings = findingsOf(object, this)
      this.#findings.set(object, findings)
    }
    return findings
  }

  wordOf(object: KubernetesObject, isHidden: IsHidden = () => false): ArgoStatus {
    const found = this.findingsOf(object).find(({ needs }) => !needs.some(isHidden))
    return this.opinionOf(object, found).word
  }

  opinionOf(object: KubernetesObject, finding: Finding | undefined): Opinion {
    return opinionOf(object, finding, this.#verdicts(object), this.now)
  }

  #index(object: KubernetesObject): void {
    const namespace = namespaceOf(object)
    this.#byPlace.set(placeOf(object), object)
    if (isBeingDeleted(object) && namespace !== '') push(this.#deleted, namespace, object)
    for (const [name, value] of labelTableOf(labelsOf(object))) {
      if (kindOf(object) === 'Pod') push(this.#pods, keyOf(namespace, name, value), object)
    }
    for (const [name, value] of labelTableOf(templateOf(object)))
      push(this.#workloads, keyOf(namespace, name, value), object)
    switch (kindOf(object)) {
      case 'Pod':
        for (const name of claimNamesOf(object)) push(this.#users, keyOf(namespace, name), object)
        break
      case 'discovery.k8s.io/EndpointSlice':
        push(this.#slices, keyOf(namespace, entryAt(object, 'metadata.labels', 'kubernetes.io/service-name')), object)
        break
      case 'apiregistration.k8s.io/APIService':
        push(this.#apiServices, textAt(object, 'spec.group'), object)
        break
      default:
        for (const name of webhookNamesOf(object)) push(this.#webhooks, name, object)
    }
  }

  #read(events: readonly KubernetesObject[]): void {
    for (const event of sortedBy(events, placeOf)) {
      const evidence = evidenceOf(event, this.now)
      if (!evidence) continue
      const { kind, namespace, name, uid } = subjectOf(event)
      const place = keyOf(kind, namespace, name)
      this.#ofName.set(place, [...(this.#ofName.get(place) ?? []), [uid, evidence]])
      const key = uid || place
      const all = this.#evidence.get(key)
      if (all) all.push(evidence)
      else this.#evidence.set(key, [evidence])
    }
    for (const [key, all] of this.#evidence) {
      if (all.length <= maxEvidence) continue
      this.#evidence.set(key, all.sort((one, other) => other.last - one.last).slice(0, maxEvidence))
    }
  }
}

const keyOf = (...parts: readonly string[]) => parts.join('\n')
const placeOf = (object: KubernetesObject) => keyOf(kindOf(object), namespaceOf(object), nameOf(object))

function push<Key>(index: Map<Key, KubernetesObject[]>, key: Key, object: KubernetesObject): void {
  const all = index.get(key)
  if (!all) index.set(key, [object])
  else if (all.at(-1) !== object) all.push(object)
}

/** Sorts, so that the order of objects in a source does not matter. */
function sortedBy(objects: readonly KubernetesObject[], keyOf: (object: KubernetesObject) => string) {
  const keyed = objects.map((object) => ({ object, key: keyOf(object) }))
  keyed.sort((one, other) => (one.key === other.key ? 0 : one.key < other.key ? -1 : 1))
  return keyed.map(({ object }) => object)
}

/** Takes the objects with the rarest of the wanted labels, and returns those that have all. */
function selected(index: Index, namespace: string, selector: Table, labelsOf: (object: KubernetesObject) => unknown) {
  let fewest: readonly KubernetesObject[] | undefined
  for (const [name, value] of selector) {
    const having = index.get(keyOf(namespace, name, value)) ?? []
    if (!fewest || having.length < fewest.length) fewest = having
  }
  return (fewest ?? []).filter((one) => {
    const labels = labelsOf(one)
    return selector.every(([name, value]) => field(labels, name) === value)
  })
}

const labelsOf = (object: KubernetesObject) => at(object, 'metadata.labels')

/** Labels of the Pods that it creates; for a CronJob its Jobs create them. */
function templateOf(object: KubernetesObject): unknown {
  const template = at(object, 'spec.template') ?? at(object, 'spec.jobTemplate.spec.template')
  return at(template, 'metadata.labels')
}

function webhookNamesOf(object: KubernetesObject): readonly string[] {
  return webhookKinds.includes(kindOf(object)) ? listAt(object, 'webhooks').map((one) => textField(one, 'name')) : []
}

/** Judges an object for one caller. @returns undefined: there is no such object, or none that the caller may list */
export function judgedFor(
  world: Snapshot,
  mayList: MayList,
  [kind, namespace, name]: readonly [kind: string, namespace: string, name: string],
): Judged | undefined {
  const root = mayList(kind, namespace) ? world.find(kind, namespace, name) : undefined
  return root && new Judge(world, mayList).judgeAll([root])
}
