import { type KubernetesObject, kindOf, nameOf, namespaceOf, uidOf } from '../../../../kubernetes/object.ts'
import type { ArgoStatus } from '../../../health/argo/health.ts'
import type { IsHidden, ListedKind, ListTrouble, Taints } from '../../../health/kas/around.ts'
import type { Evidence } from '../../../health/kas/evidence.ts'
import type { Finding } from '../../../health/kas/finding.ts'
import { endsByEvents, type PodEnd } from '../../../health/kas/pod-ends.ts'
import type { Evidences } from './evidence.ts'
import { type Read, reads } from './judging-dependencies.ts'
import { NodeSelectors } from './node-selectors.ts'
import { traitObject } from './object-record.ts'
import type { PodEnds } from './pod-ends.ts'
import type { ObjectRecord } from './record.ts'
import { RecordsWorld, type RecordsWorldComponents } from './records-world.ts'

type Selector = Parameters<RecordsWorld['podsOf']>[1]

export interface JudgingWorldComponents extends RecordsWorldComponents {
  readonly evidence: Pick<Evidences, 'of' | 'ofName'>
  readonly ends: Pick<PodEnds, 'of'>
  /** true if all objects of the kind are known */
  readonly isLive: (kind: string) => boolean
  readonly listTroubleOf: (kind: string) => ListTrouble | undefined
}

/** `RecordsWorld` that judges single objects: it notes what was read of others. */
export class JudgingWorld extends RecordsWorld {
  /** reads since it was cleared */
  readonly noted = new Set<Read>()
  readonly #judging: JudgingWorldComponents
  /** taints by selector, since a node has changed */
  readonly #taints = new NodeSelectors<readonly KubernetesObject[] | undefined>()
  readonly #selected = new Map<string, readonly KubernetesObject[]>()

  constructor(components: JudgingWorldComponents) {
    super(components)
    this.#judging = components
  }

  override eventsOf(object: KubernetesObject): readonly Evidence[] {
    const { kind, ...place } = this.placeOf(object)
    return this.#judging.evidence.of({ ...place, kind: kind.key })
  }

  override isLive(kind: string, _namespace: string): boolean {
    this.noted.add(reads.live(kind))
    return this.#judging.isLive(kind)
  }

  override listTroubleOf(kind: string): ListTrouble | undefined {
    this.noted.add(reads.live(kind))
    return this.#judging.listTroubleOf(kind)
  }

  override find(kind: string, namespace: string, name: string): KubernetesObject | undefined {
    this.noted.add(reads.object(kind, namespace, name))
    return super.find(kind, namespace, name)
  }

  override allOf(kind: ListedKind, namespace: string): readonly KubernetesObject[] {
    this.noted.add(reads.allOf(kind, namespace))
    return super.allOf(kind, namespace)
  }

  override endsOf(object: KubernetesObject): readonly PodEnd[] {
    this.noted.add(reads.endedOf(uidOf(object)))
    if (kindOf(object) === 'apps/StatefulSet') this.noted.add(reads.childrenOf(uidOf(object))) // their names
    const { ends, evidence } = this.#judging
    const ofName = (pod: KubernetesObject) => evidence.ofName('Pod', namespaceOf(pod), nameOf(pod))
    return [...endsByEvents(object, (set) => super.childrenOf(set), ofName), ...ends.of(object, this.now)]
  }

  override failedOf(object: KubernetesObject): readonly KubernetesObject[] {
    this.noted.add(reads.endedOf(uidOf(object)))
    return super.failedOf(object)
  }

  override childrenOf(object: KubernetesObject): readonly KubernetesObject[] {
    this.noted.add(reads.childrenOf(uidOf(object)))
    return super.childrenOf(object)
  }

  override forget(): void {
    super.forget()
    this.#selected.clear()
  }

  override podsOf(namespace: string, selector: Selector): readonly KubernetesObject[] {
    this.noted.add(reads.pods(namespace))
    return this.#once(`p\n${namespace}`, selector, () => super.podsOf(namespace, selector))
  }

  override workloadsOf(namespace: string, selector: Selector): readonly KubernetesObject[] {
    this.noted.add(reads.workloads(namespace))
    return this.#once(`w\n${namespace}`, selector, () => super.workloadsOf(namespace, selector))
  }

  /** Reads a namespace once for each selector while one object is judged. */
  #once(what: string, selector: Selector, find: () => readonly KubernetesObject[]): readonly KubernetesObject[] {
    const key = `${what}\n${JSON.stringify(selector)}`
    const known = this.#selected.get(key) ?? find()
    this.#selected.set(key, known)
    return known
  }

  /** Keeps taints by selector: many Pods need them, and nodes change seldom. */
  override taints(namespace: string, selector: Selector): Taints {
    this.noted.add(reads.taints)
    return this.#taints.get(namespace, JSON.stringify(selector), () => super.taintsOf(selector))
  }

  nodesChanged(): void {
    this.#taints.clear()
  }

  override slicesOf(service: KubernetesObject): readonly KubernetesObject[] {
    const { namespace, name } = this.placeOf(service)
    this.noted.add(reads.slicesOf(namespace, name))
    return super.slicesOf(service)
  }

  override usersOf(claim: KubernetesObject): readonly KubernetesObject[] {
    const { namespace, name } = this.placeOf(claim)
    this.noted.add(reads.usersOf(namespace, name))
    return super.usersOf(claim)
  }

  override findingsOf(object: KubernetesObject): readonly Finding[] {
    this.noted.add(reads.judged(uidOf(object)))
    return super.findingsOf(object)
  }

  override wordOf(object: KubernetesObject, isHidden?: IsHidden): ArgoStatus {
    this.noted.add(reads.judged(uidOf(object)))
    return super.wordOf(object, isHidden)
  }

  /** Other objects are judged by the traits of an object alone, even if more of it is kept. */
  protected override partsOf(record: ObjectRecord): KubernetesObject {
    return traitObject(record)
  }
}
