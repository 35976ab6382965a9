import { type KubernetesObject, kindOf, namespaceOf } from '../../../kubernetes/object.ts'
import type { ArgoStatus } from '../argo/health.ts'
import type { Around, IsHidden, ListedKind, ListTrouble, Taints } from './around.ts'
import type { Evidence } from './evidence.ts'
import type { Finding, Need } from './finding.ts'
import type { PodEnd } from './pod-ends.ts'
import type { LabelTable } from './read.ts'

/** Other objects and facts that rules read, without some of them. */
export class Hidden implements Around {
  readonly #around: Around
  readonly #hidden: ReadonlySet<string>

  constructor(around: Around, hidden: readonly Need[]) {
    this.#around = around
    this.#hidden = new Set(hidden.map(keyOf))
  }

  get now(): number {
    return this.#around.now
  }

  eventsOf(object: KubernetesObject): readonly Evidence[] {
    return this.#isHidden(['Event', namespaceOf(object)]) ? [] : this.#around.eventsOf(object)
  }

  isLive(kind: string, namespace: string): boolean {
    return !this.#isHidden([kind, namespace]) && this.#around.isLive(kind, namespace)
  }

  listTroubleOf(kind: string): ListTrouble | undefined {
    return this.#around.listTroubleOf(kind)
  }

  find(kind: string, namespace: string, name: string): KubernetesObject | undefined {
    return this.#isHidden([kind, namespace]) ? undefined : this.#around.find(kind, namespace, name)
  }

  allOf(kind: ListedKind, namespace: string): readonly KubernetesObject[] {
    return this.#seen(this.#around.allOf(kind, namespace))
  }

  failedOf(object: KubernetesObject): readonly KubernetesObject[] {
    return this.#seen(this.#around.failedOf(object))
  }

  endsOf(object: KubernetesObject): readonly PodEnd[] {
    if (this.#isHidden(['Pod', namespaceOf(object)])) return []
    const isSeen = !this.#isHidden(['Event', namespaceOf(object)])
    return this.#around.endsOf(object).filter(({ isByEvent }) => isSeen || !isByEvent)
  }

  childrenOf(object: KubernetesObject): readonly KubernetesObject[] {
    return this.#seen(this.#around.childrenOf(object))
  }

  podsOf(namespace: string, selector: Parameters<Around['podsOf']>[1]): readonly KubernetesObject[] {
    return this.#isHidden(['Pod', namespace]) ? [] : this.#around.podsOf(namespace, selector)
  }

  workloadsOf(namespace: string, selector: Parameters<Around['podsOf']>[1]): readonly KubernetesObject[] {
    return this.#seen(this.#around.workloadsOf(namespace, selector))
  }

  slicesOf(service: KubernetesObject): readonly KubernetesObject[] {
    return this.#seen(this.#around.slicesOf(service))
  }

  taints(namespace: string, selector: LabelTable): Taints {
    return this.#isHidden(['Node', '']) ? [] : this.#around.taints(namespace, selector)
  }

  usersOf(claim: KubernetesObject): readonly KubernetesObject[] {
    return this.#seen(this.#around.usersOf(claim))
  }

  findingsOf(object: KubernetesObject): readonly Finding[] {
    return this.#around.findingsOf(object).filter(({ needs }) => !needs.some(this.#isHidden))
  }

  wordOf(object: KubernetesObject): ArgoStatus {
    return this.#around.wordOf(object, this.#isHidden)
  }

  before(object: KubernetesObject): Finding | undefined {
    return this.#around.before(object, this.#isHidden)
  }

  readonly #isHidden: IsHidden = (need) => this.#hidden.has(keyOf(need))

  #seen(objects: readonly KubernetesObject[]): readonly KubernetesObject[] {
    return objects.filter((one) => !this.#isHidden([kindOf(one), namespaceOf(one)]))
  }
}

const keyOf = ([kind, namespace]: Need) => `${kind}\n${namespace}`
