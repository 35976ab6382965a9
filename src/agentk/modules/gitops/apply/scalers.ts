import { keyText, type ObjectKey } from '../../../../kubernetes/key.ts'
import { builtIn, parseApiVersion } from '../../../../kubernetes/kind.ts'
import { at, type KubernetesObject, listAt, namespaceOf, textAt } from '../../../../kubernetes/object.ts'
import { collectionPath, objectPath, withQuery } from '../../../../kubernetes/path.ts'
import type { ApiLane } from '../../../cluster/background-requests.ts'
import { maxEventBytes } from '../../../cluster/watch-request.ts'
import type { ClusterKind, ClusterKinds } from '../live/cluster-kinds.ts'
import { usualReplicasPath } from '../live/managed-fields.ts'
import { type Manifest, mayHaveField } from '../manifests/manifest.ts'

export interface ScalersComponents {
  /** acts as the source's account */
  readonly lane: ApiLane
  /** acts as agentk itself, to read definitions */
  readonly ownLane: ApiLane
  readonly kinds: ClusterKinds
  /** manifests of the commit: scalers among them count before they are made */
  readonly manifests: readonly Manifest[]
}

/** `unknown`: the account may not list autoscalers, or there are too many. */
export type Scaled = 'yes' | 'no' | 'unknown'

/** Limit of autoscalers read, of one kind in one namespace: some 4 KiB each. */
const maxAutoscalers = 500
/** Limit of namespaces in notes. */
const maxNotes = 10

/** Path through maps alone: `.spec.workers.size`. */
const simplePath = /^(?:\.[A-Za-z0-9_-]+){2,20}$/

/** Kinds that scale other objects: HorizontalPodAutoscaler, ScaledObject of KEDA, and others by their names. */
const scalerKind = /Autoscaler$|^ScaledObject$|HPA$/
/** kinds that set requests, not replicas */
const verticalKind = /^Vertical/

export function isScalerKind({ kind }: Pick<ObjectKey, 'kind'>): boolean {
  return scalerKind.test(kind) && !verticalKind.test(kind)
}

/** Finds the objects that an autoscaler names as its target: it owns their number of replicas. */
export class Scalers {
  readonly #components: ScalersComponents
  /** by namespace: targets of autoscalers in the cluster */
  readonly #listed = new Map<string, Promise<Listed>>()
  readonly #unread = new Map<string, string>()
  /** by path and version of the definition */
  readonly #paths = new Map<string, Promise<string | undefined>>()
  #wanted: ReadonlySet<string> | undefined

  constructor(components: ScalersComponents) {
    this.#components = components
  }

  /** @throws the connection's error, or the signal's reason */
  async of(key: ObjectKey, signal: AbortSignal): Promise<Scaled> {
    const { namespace } = key
    if (namespace === '') return 'no' // an autoscaler is in the namespace of its target
    const text = keyText(key)
    this.#wanted ??= new Set(this.#components.manifests.flatMap((manifest) => wantedTarget(manifest) ?? []))
    if (this.#wanted.has(text)) return 'yes'
    const reading = this.#listed.get(namespace) ?? this.#list(namespace, signal)
    this.#listed.set(namespace, reading)
    const { targets, unread } = await reading
    if (targets.has(text)) return 'yes'
    if (unread === undefined) return 'no'
    this.#unread.set(namespace, unread)
    return 'unknown'
  }

  /**
   * Returns the path of the replicas of a kind; the definition of a custom kind names it.
   *
   * @returns undefined: the definition names no simple path. @throws the connection's error, or the signal's reason
   */
  async pathOf({ group, plural, version }: ClusterKind, signal: AbortSignal): Promise<string | undefined> {
    if (!group.includes('.') || group.endsWith('.k8s.io')) return usualReplicasPath
    const path = objectPath(builtIn.customResourceDefinitions, { name: `${plural}.${group}` })
    const key = `${path} ${version}`
    const reading = this.#paths.get(key) ?? this.#readPath(path, version, signal)
    this.#paths.set(key, reading)
    return await reading
  }

  async #readPath(path: string, version: string, signal: AbortSignal): Promise<string | undefined> {
    const { ownLane } = this.#components
    const { status, body } = await ownLane.json('GET', path, undefined, signal, { maxBytes: maxEventBytes })
    if (status !== 200) return usualReplicasPath
    const served = listAt(body, 'spec.versions').find(({ name }) => name === version)
    const said = textAt(served, 'subresources.scale.specReplicasPath')
    return simplePath.test(said) ? said.slice(1) : undefined
  }

  /** Notes about namespaces whose replicas were left, since it is unknown if they have autoscalers. */
  get notes(): readonly string[] {
    const all = Array.from(
      this.#unread,
      ([namespace, reason]) => `replicas of others are left as they are in namespace ${namespace}: ${reason}`,
    )
    return all.slice(0, maxNotes)
  }

  async #list(namespace: string, signal: AbortSignal): Promise<Listed> {
    const { lane, kinds } = this.#components
    const targets = new Set<string>()
    let unread: string | undefined
    for (const kind of kinds.listable.filter((one) => one.isNamespaced && isScalerKind(one))) {
      const path = withQuery(collectionPath(kind, namespace), { limit: maxAutoscalers })
      const { status, body } = await lane.json('GET', path, undefined, signal, { maxBytes: maxEventBytes })
      if (status !== 200) unread ??= `the account cannot list ${nameOf(kind)} (${status})`
      else if (textAt(body, 'metadata.continue') !== '')
        unread ??= `there are more than ${maxAutoscalers} ${nameOf(kind)}`
      for (const object of status === 200 ? listAt(body, 'items') : []) {
        const target = targetOf(object)
        if (target !== undefined) targets.add(target)
      }
    }
    return { targets, unread }
  }
}

function wantedTarget(manifest: Manifest): string | undefined {
  return mayHaveField(manifest, 'scaleTargetRef') ? targetOf(manifest.object) : undefined
}

interface Listed {
  /** by `keyText` */
  readonly targets: ReadonlySet<string>
  readonly unread: string | undefined
}

function nameOf({ plural, group }: ClusterKind): string {
  return `${plural}.${group}`
}

/** Returns the `keyText` of the object that an autoscaler scales. As in KEDA, the default kind is Deployment. */
function targetOf(object: KubernetesObject): string | undefined {
  const reference = at(object, 'spec.scaleTargetRef')
  const name = textAt(reference, 'name')
  if (name === '') return undefined
  const kind = textAt(reference, 'kind') || 'Deployment'
  const { group } = parseApiVersion(textAt(reference, 'apiVersion') || 'apps/v1')
  return keyText({ group, kind, namespace: namespaceOf(object), name })
}
