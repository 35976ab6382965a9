import type { ObjectTree } from '../../../../src/agentk/modules/gitops/manifests/manifest.ts'
import type { Seeded } from '../../../support/seeded.ts'

type Tree = Record<string, unknown>

const quantities = ['0.5', '500m', 1, '1Gi', '1024Mi', '.5', '1e3', '0.1Gi', '1000000k', 0] as const
const names = ['a', 'b', 'c', 'd'] as const

/** Random manifests as people write them: with nulls, quantities, lists with keys, and unnecessary status fields. */
export class RandomManifests {
  readonly #random: Seeded
  readonly #toolVersion: string

  constructor(random: Seeded, toolVersion: string) {
    this.#random = random
    this.#toolVersion = toolVersion
  }

  /** @param index - manifests with the same index have the same kind and name */
  manifest(index: number): ObjectTree {
    const make = this.#makers[index % this.#makers.length] as () => Tree
    const { apiVersion, kind, metadata, ...rest } = make()
    const own = { labels: this.#texts(), annotations: this.#texts(), ...(metadata as Tree) }
    const body = { ...rest, metadata: own }
    for (let change = this.#random.int(4); change > 0; change--) this.#change(body)
    return { apiVersion, kind, ...body, metadata: { ...(body.metadata as Tree | null), name: `m${index}` } }
  }

  readonly #makers: readonly (() => Tree)[] = [
    () => ({ apiVersion: 'v1', kind: 'ConfigMap', data: this.#texts(), binaryData: { bytes: 'eA==' } }),
    () => ({ apiVersion: 'v1', kind: 'Secret', data: { bytes: 'eA==' }, stringData: this.#texts() }),
    () => ({ apiVersion: 'v1', kind: 'Service', spec: { selector: this.#texts(), ports: this.#ports('port') } }),
    () => ({ apiVersion: 'apps/v1', kind: 'Deployment', spec: this.#workload(), status: { replicas: 1 } }),
    () => ({ apiVersion: 'apps/v1', kind: 'StatefulSet', spec: { ...this.#workload(), serviceName: 'a' } }),
    () => ({ apiVersion: 'batch/v1', kind: 'CronJob', spec: this.#cron() }),
    () => ({ apiVersion: 'networking.k8s.io/v1', kind: 'NetworkPolicy', spec: this.#policy() }),
    () => ({ apiVersion: 'v1', kind: 'ResourceQuota', spec: { hard: this.#resources() } }),
    () => ({ apiVersion: 'rbac.authorization.k8s.io/v1', kind: 'Role', rules: this.#rules() }),
    () => ({
      apiVersion: 'policy/v1',
      kind: 'PodDisruptionBudget',
      spec: { minAvailable: this.#random.pick([1, '50%']), selector: { matchLabels: this.#texts() } },
      status: {},
    }),
    () => ({
      apiVersion: this.#toolVersion,
      kind: 'Tool',
      spec: this.#tool(),
      status: { ready: this.#random.pick([true, null]) },
    }),
  ]

  #texts(): Tree {
    return Object.fromEntries(this.#some(names).map((name) => [name, this.#random.pick(['x', '', null])]))
  }

  #some<T>(values: readonly T[]): T[] {
    return this.#random.shuffled(values).slice(0, 1 + this.#random.int(values.length))
  }

  #resources(): Tree {
    return Object.fromEntries(this.#some(['cpu', 'memory']).map((name) => [name, this.#random.pick(quantities)]))
  }

  #ports(number: string): Tree[] {
    return this.#some(['TCP', 'UDP']).map((protocol) => ({ name: protocol.toLowerCase(), [number]: 53, protocol }))
  }

  #workload(): Tree {
    const labels = { app: 'fixed' }
    return {
      replicas: this.#random.int(3),
      selector: { matchLabels: labels },
      template: { metadata: { labels: { ...this.#texts(), ...labels }, creationTimestamp: null }, spec: this.#pod() },
    }
  }

  #pod(): Tree {
    const volumes = this.#some(names)
    return {
      containers: this.#some(names).map((name) => ({
        name,
        image: 'nginx:1',
        env: this.#some(names).map((one) => ({ name: one, value: this.#random.pick(['x', null]) })),
        ports: this.#ports('containerPort'),
        resources: { limits: this.#resources(), requests: null },
        volumeMounts: volumes.map((volume) => ({ name: volume, mountPath: `/${volume}` })),
      })),
      volumes: volumes.map((name) => ({
        name,
        emptyDir: this.#random.pick([{}, null, { sizeLimit: this.#random.pick(quantities) }]),
      })),
      nodeSelector: this.#texts(),
      tolerations: [{ key: 'a', operator: 'Exists' }],
      imagePullSecrets: [{ name: 'a' }],
    }
  }

  #cron(): Tree {
    const spec = { ...this.#pod(), restartPolicy: 'Never' }
    return {
      schedule: '0 0 * * *',
      suspend: true,
      jobTemplate: { spec: { backoffLimit: this.#random.int(3), template: { spec } } },
    }
  }

  #policy(): Tree {
    const peer = () => ({ podSelector: { matchLabels: this.#texts() } })
    return {
      podSelector: { matchLabels: this.#texts() },
      ingress: [{ from: [peer(), peer()] }],
      policyTypes: ['Ingress'],
    }
  }

  #rules(): Tree[] {
    return [{ apiGroups: [''], resources: this.#some(['pods', 'services']), verbs: this.#some(['get', 'list']) }]
  }

  #tool(): Tree {
    return {
      mode: this.#random.pick(['manual', null]),
      level: this.#random.pick(['debug', null]),
      size: this.#random.pick([1, null]),
      values: { deep: { a: null, b: [null, { c: null }] }, ...this.#texts() },
      texts: this.#texts(),
      steps: this.#some(names).map((name) => ({ name, run: this.#random.pick(['y', null]) })),
      plain: ['a', null],
    }
  }

  /** Replaces a random value by null, or removes it. */
  #change(tree: Tree): void {
    const places: [Tree, string][] = []
    const collect = (value: unknown) => {
      if (typeof value !== 'object' || value === null) return
      for (const [at, item] of Object.entries(value)) {
        places.push([value as Tree, at])
        collect(item)
      }
    }
    collect(tree)
    if (places.length === 0) return // everything is removed already
    const [holder, at] = this.#random.pick(places)
    if (this.#random.chance(0.6)) (holder as Tree)[at] = null
    else if (Array.isArray(holder)) holder.splice(Number(at), 1)
    else delete holder[at]
  }
}
