import { readFile, writeFile } from 'node:fs/promises'
import { join } from 'node:path'
import type { Test } from 'tap'
import type { KubernetesObject } from '../../../dev/control-plane/api-client.ts'
import type { ControlPlane } from '../../../dev/control-plane/control-plane.ts'
import { kubeconfigText } from '../../../dev/control-plane/kubeconfig.ts'
import { systemClock } from '../../../src/lib/clock.ts'
import {
  KubernetesDiscovery,
  type KubernetesDiscoveryOptions,
} from '../../../src/membership/discovery/kubernetes/kubernetes-source.ts'
import { capturedLog } from '../../support/captured-log.ts'
import { FaultingFront } from './faulting-front.ts'

/** A rule of a Role. */
export interface Rule {
  readonly apiGroups: readonly string[]
  readonly resources: readonly string[]
  readonly verbs: readonly string[]
  readonly resourceNames?: readonly string[]
}

export const slicesRule: Rule = {
  apiGroups: ['discovery.k8s.io'],
  resources: ['endpointslices'],
  verbs: ['list', 'watch'],
}
export const endpointsRule = (...services: string[]): Rule => ({
  apiGroups: [''],
  resources: ['endpoints'],
  verbs: ['list', 'watch'],
  resourceNames: services,
})

export interface SliceSpec {
  readonly name: string
  readonly service?: string
  readonly addressType?: 'IPv4' | 'IPv6' | 'FQDN'
  readonly hosts: readonly string[]
  readonly conditions?: Readonly<Record<string, boolean>>
  readonly ports?: readonly { name: string; port: number; protocol?: string }[]
}

/** Timers of tenths of seconds instead of seconds. */
export const quick = {
  otherPort: 8156,
  firstRetryMs: 50,
  maxRetryMs: 200,
  requestTimeoutMs: 1_000,
  relistMs: 500,
  healthyMs: 1_000,
  slicesRetryMs: 400,
  maxReopenMs: 200,
}

let namespaces = 0

/** A namespace of the control plane, an account with a Role in it, and a front through which the account reaches it. */
export class KubernetesGround {
  readonly front: FaultingFront
  readonly namespace: string
  readonly service = 'kas-private'
  readonly lines: Record<string, unknown>[] = []
  readonly #controlPlane: ControlPlane
  readonly #t: Test
  #token = ''

  private constructor(t: Test, controlPlane: ControlPlane, front: FaultingFront) {
    this.#t = t
    this.#controlPlane = controlPlane
    this.front = front
    namespaces += 1
    this.namespace = `discovery-${namespaces}`
  }

  static async start(t: Test, controlPlane: ControlPlane, rules: readonly Rule[]): Promise<KubernetesGround> {
    const ca = await readFile(controlPlane.caFile, 'utf8')
    const front = await FaultingFront.start(t, { target: controlPlane.server, ca })
    const ground = new KubernetesGround(t, controlPlane, front)
    const { admin } = controlPlane
    const { namespace } = ground
    await admin.create('/api/v1/namespaces', { metadata: { name: namespace } })
    const path = `/api/v1/namespaces/${namespace}/serviceaccounts`
    const { metadata } = await admin.create(path, { metadata: { name: 'kas' } })
    ground.#token = controlPlane.signToken({
      account: { namespace, name: 'kas', uid: metadata.uid },
      lifeMs: 7_200_000,
    })
    await admin.create(`${rbac(namespace)}/roles`, { metadata: { name: 'kas' }, rules })
    await admin.create(`${rbac(namespace)}/rolebindings`, {
      metadata: { name: 'kas' },
      roleRef: { apiGroup: 'rbac.authorization.k8s.io', kind: 'Role', name: 'kas' },
      subjects: [{ kind: 'ServiceAccount', namespace, name: 'kas' }],
    })
    return ground
  }

  /** token of the account */
  get token(): string {
    return this.#token
  }

  /** @param way - `front`: through the front, without TLS; `direct`: as in a cluster */
  async source(options: Partial<KubernetesDiscoveryOptions> = {}, way: 'front' | 'direct' = 'front') {
    const { log, lines } = capturedLog()
    const source = new KubernetesDiscovery(
      { log, clock: systemClock, random: () => 0.5 },
      { ...quick, services: [this.service], kubeconfig: await this.kubeconfig(way), ...options },
    )
    this.#t.teardown(() => source.stop())
    return Object.assign(source, { lines })
  }

  async kubeconfig(way: 'front' | 'direct'): Promise<string> {
    const { server, caFile } = this.#controlPlane
    const user = { token: this.#token }
    const text = kubeconfigText({ server, caFile, user, namespace: this.namespace })
    const config = JSON.parse(text) as { clusters: { cluster: object }[] }
    if (way === 'front') {
      for (const one of config.clusters) one.cluster = { server: this.front.url, 'insecure-skip-tls-verify': true }
    }
    const file = join(this.#controlPlane.folder, `${this.namespace}-${way}.kubeconfig`)
    await writeFile(file, JSON.stringify(config))
    return file
  }

  async setRules(rules: readonly Rule[]): Promise<void> {
    await this.#patch(`${rbac(this.namespace)}/roles/kas`, { rules })
  }

  async addSlice(spec: SliceSpec): Promise<void> {
    await this.#controlPlane.admin.create(this.#slices, {
      metadata: { name: spec.name, labels: { 'kubernetes.io/service-name': spec.service ?? this.service } },
      addressType: spec.addressType ?? 'IPv4',
      endpoints: spec.hosts.map((host) => ({ addresses: [host], conditions: spec.conditions ?? { ready: true } })),
      ports: spec.ports ?? [{ name: 'gossip', port: 8156, protocol: 'TCP' }],
    })
  }

  async changeSlice(name: string, hosts: readonly string[]): Promise<void> {
    const endpoints = hosts.map((host) => ({ addresses: [host] }))
    await this.#patch(`${this.#slices}/${name}`, { endpoints })
  }

  async removeSlice(name: string): Promise<void> {
    await this.#request(`${this.#slices}/${name}`, { method: 'DELETE' })
  }

  async addEndpoints(subsets: readonly KubernetesObject[], name = this.service): Promise<void> {
    const path = `/api/v1/namespaces/${this.namespace}/endpoints`
    await this.#controlPlane.admin.create(path, { metadata: { name }, subsets })
  }

  async changeEndpoints(subsets: readonly KubernetesObject[], name = this.service): Promise<void> {
    await this.#patch(`/api/v1/namespaces/${this.namespace}/endpoints/${name}`, { subsets })
  }

  get #slices(): string {
    return `/apis/discovery.k8s.io/v1/namespaces/${this.namespace}/endpointslices`
  }

  async #patch(path: string, body: object): Promise<void> {
    await this.#request(path, { method: 'PATCH', body, contentType: 'application/merge-patch+json' })
  }

  async #request(path: string, init: Parameters<ControlPlane['admin']['request']>[1]): Promise<void> {
    const { status, body } = await this.#controlPlane.admin.request(path, init)
    if (status >= 300) throw new Error(`${path}: HTTP ${status}: ${body}`)
  }
}

const rbac = (namespace: string) => `/apis/rbac.authorization.k8s.io/v1/namespaces/${namespace}`
