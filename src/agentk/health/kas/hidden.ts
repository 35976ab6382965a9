import type { ArgoStatus } from '../argo/health.ts'
import { type KubernetesObject, kindOf } from '../object.ts'
import type { Around } from './around.ts'
import type { Evidence } from './evidence.ts'
import type { Finding } from './finding.ts'

/** What rules read of others, without some kinds. */
export class Hidden implements Around {
  readonly #around: Around
  readonly #kinds: ReadonlySet<string>

  /** @param kinds - `group/Kind`, `Event` too */
  constructor(around: Around, kinds: ReadonlySet<string>) {
    this.#around = around
    this.#kinds = new Set(kinds)
  }

  get now(): number {
    return this.#around.now
  }

  eventsOf(object: KubernetesObject): readonly Evidence[] {
    return this.#kinds.has('Event') ? [] : this.#around.eventsOf(object)
  }

  isLive(kind: string): boolean {
    return !this.#kinds.has(kind) && this.#around.isLive(kind)
  }

  find(kind: string, namespace: string, name: string): KubernetesObject | undefined {
    return this.#kinds.has(kind) ? undefined : this.#around.find(kind, namespace, name)
  }

  childrenOf(object: KubernetesObject): readonly KubernetesObject[] {
    return this.#seen(this.#around.childrenOf(object))
  }

  podsOf(namespace: string, selector: Parameters<Around['podsOf']>[1]): readonly KubernetesObject[] {
    return this.#kinds.has('Pod') ? [] : this.#around.podsOf(namespace, selector)
  }

  workloadsOf(namespace: string, selector: Parameters<Around['podsOf']>[1]): readonly KubernetesObject[] {
    return this.#seen(this.#around.workloadsOf(namespace, selector))
  }

  slicesOf(service: KubernetesObject): readonly KubernetesObject[] {
    return this.#seen(this.#around.slicesOf(service))
  }

  usersOf(claim: KubernetesObject): readonly KubernetesObject[] {
    return this.#seen(this.#around.usersOf(claim))
  }

  findingsOf(object: KubernetesObject): readonly Finding[] {
    return this.#around.findingsOf(object).filter(({ needs }) => !needs.some(([kind]) => this.#kinds.has(kind)))
  }

  wordOf(object: KubernetesObject): ArgoStatus {
    return this.#around.wordOf(object, this.#kinds)
  }

  before(object: KubernetesObject): Finding | undefined {
    return this.#around.before(object)
  }

  #seen(objects: readonly KubernetesObject[]): readonly KubernetesObject[] {
    return objects.filter((one) => !this.#kinds.has(kindOf(one)))
  }
}
