import { once } from 'node:events'
import { createServer } from 'node:https'
import type { AddressInfo } from 'node:net'
import { Authority } from '../../../dev/certificates.ts'
import type { TornDown } from '../processes.ts'
import { patience } from '../slowness.ts'
import type { NodeCluster } from './node-cluster.ts'

const group = 'external.metrics.k8s.io'

/** A metrics server for tests: each metric has one value in all namespaces. */
export class ExternalMetrics {
  /** values by name; absent: there is no such metric */
  readonly values = new Map<string, number>()

  /** Resolves when the API server asks it for metrics. */
  static async start(t: TornDown, cluster: NodeCluster): Promise<ExternalMetrics> {
    const metrics = new ExternalMetrics()
    const { certificate, key } = await (await Authority.create('metrics')).issueServing({
      dns: [],
      ip: [cluster.address],
    })
    const server = createServer({ cert: certificate, key }, (request, answer) => {
      const body = metrics.#answer(new URL(request.url ?? '', 'https://metrics').pathname)
      answer.writeHead(body ? 200 : 404, { 'content-type': 'application/json' }).end(JSON.stringify(body ?? {}))
    })
    t.teardown(() => {
      server.close()
      server.closeAllConnections()
    })
    await once(server.listen(0, cluster.address), 'listening')
    await register(cluster, (server.address() as AddressInfo).port)
    return metrics
  }

  #answer(path: string): object | undefined {
    const apiVersion = `${group}/v1beta1`
    const root = `/apis/${apiVersion}`
    if (path === root) {
      const resource = {
        name: '*',
        singularName: '',
        namespaced: true,
        kind: 'ExternalMetricValueList',
        verbs: ['get'],
      }
      return { kind: 'APIResourceList', apiVersion: 'v1', groupVersion: apiVersion, resources: [resource] }
    }
    const metricName = path.startsWith(`${root}/namespaces/`) ? path.slice(path.lastIndexOf('/') + 1) : ''
    const value = this.values.get(metricName)
    if (value === undefined) return undefined
    const item = { metricName, metricLabels: {}, timestamp: new Date().toISOString(), value: String(value) }
    return { kind: 'ExternalMetricValueList', apiVersion, metadata: {}, items: [item] }
  }
}

async function register(cluster: NodeCluster, port: number): Promise<void> {
  const metadata = { name: 'metrics', namespace: 'default' }
  // an external name: the API server dials it itself, not through a node
  const spec = { type: 'ExternalName', externalName: cluster.address, ports: [{ port }] }
  await cluster.create({ apiVersion: 'v1', kind: 'Service', metadata, spec })
  await cluster.create({
    apiVersion: 'apiregistration.k8s.io/v1',
    kind: 'APIService',
    metadata: { name: `v1beta1.${group}` },
    spec: {
      group,
      version: 'v1beta1',
      groupPriorityMinimum: 100,
      versionPriority: 100,
      insecureSkipTLSVerify: true,
      service: { ...metadata, port },
    },
  })
  await cluster.admin.until(
    '/apis/apiregistration.k8s.io/v1/apiservices',
    ({ metadata, status }) =>
      metadata.name === `v1beta1.${group}` &&
      status?.conditions?.some(({ type, status }: Record<string, string>) => type === 'Available' && status === 'True'),
    AbortSignal.timeout(patience(readyMs)),
  )
}

const readyMs = 30_000
