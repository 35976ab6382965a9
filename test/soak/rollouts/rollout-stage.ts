import type { KubernetesObject } from '../../../dev/control-plane/api-client.ts'
import type { ExternalMetrics } from '../../support/nodes/external-metrics.ts'
import { collectionOf, pathOf } from '../../support/nodes/node-cluster.ts'
import type { NodesGround } from '../../support/nodes/nodes-ground.ts'
import { namespaceOf } from '../../support/nodes/workloads.ts'

/** Limit of a step: a controller waits that long once a quota has refused its Pods again and again. ms */
const stepMs = 1_000_000

/** Stage of one rollout: a namespace of its own. */
export class RolloutStage {
  readonly namespace: string
  readonly ground: NodesGround
  readonly metrics: ExternalMetrics

  private constructor(namespace: string, { ground, metrics }: RolloutComponents) {
    this.namespace = namespace
    this.ground = ground
    this.metrics = metrics
  }

  /** Resolves when Pods may be created in the namespace. */
  static async start(namespace: string, components: RolloutComponents): Promise<RolloutStage> {
    const { cluster } = components.ground
    await cluster.create(namespaceOf(namespace))
    const accounts = `/api/v1/namespaces/${namespace}/serviceaccounts`
    await cluster.admin.until(accounts, ({ metadata }) => metadata.name === 'default', AbortSignal.timeout(stepMs))
    return new RolloutStage(namespace, components)
  }

  create(...objects: readonly KubernetesObject[]): Promise<void> {
    return this.ground.cluster.create(...objects)
  }

  /** Sends a JSON merge patch. @returns the changed object */
  async change(object: KubernetesObject, body: KubernetesObject): Promise<KubernetesObject> {
    const contentType = 'application/merge-patch+json'
    const path = pathOf(object)
    const answer = await this.ground.cluster.admin.request(path, { method: 'PATCH', contentType, body })
    if (answer.status !== 200) throw new Error(`${path}: HTTP ${answer.status}: ${answer.body}`)
    return JSON.parse(answer.body)
  }

  /** Patches the Pod template of a workload, so that all its Pods are replaced. */
  changePods(object: KubernetesObject, spec: KubernetesObject = {}): Promise<KubernetesObject> {
    return this.change(object, { spec: { template: { metadata: { labels: { version: '2' } }, spec } } })
  }

  /** Returns the object as soon as `holds`. */
  until(object: KubernetesObject, holds: (now: KubernetesObject) => boolean): Promise<KubernetesObject> {
    const { name } = object.metadata
    const isIt = (one: KubernetesObject) => one.metadata.name === name && holds(one)
    return this.ground.cluster.admin.until(collectionOf(object), isIt, AbortSignal.timeout(stepMs))
  }

  /** Waits as `kubectl rollout status` does, for workloads with replicas and for DaemonSets. */
  rolledOut(object: KubernetesObject): Promise<KubernetesObject> {
    return this.until(object, isRolledOut)
  }
}

export interface RolloutComponents {
  readonly ground: NodesGround
  readonly metrics: ExternalMetrics
}

export function isRolledOut({ kind, metadata, spec, status = {} }: KubernetesObject): boolean {
  if ((status.observedGeneration ?? 0) < metadata.generation) return false
  if (kind === 'DaemonSet' || spec.replicas === undefined) {
    const { desiredNumberScheduled: all = 0, updatedNumberScheduled = 0, numberAvailable = 0 } = status
    return all > 0 && updatedNumberScheduled === all && numberAvailable === all
  }
  const { replicas: all = 0, updatedReplicas = 0, availableReplicas = 0 } = status
  return updatedReplicas === spec.replicas && all === updatedReplicas && availableReplicas === updatedReplicas
}
