import { once } from 'node:events'
import { createServer } from 'node:https'
import type { AddressInfo } from 'node:net'
import type { Test } from 'tap'
import { Authority } from '../../dev/certificates.ts'

const groupVersion = 'external.metrics.k8s.io/v1beta1'

/** Objects by which an API server passes requests for external metrics on to `port` of this machine. */
export const externalMetricsObjects = (namespace: string, port: number) => [
  {
    apiVersion: 'v1',
    kind: 'Service',
    metadata: { name: 'external-metrics', namespace },
    spec: { type: 'ExternalName', externalName: 'localhost' },
  },
  {
    apiVersion: 'apiregistration.k8s.io/v1',
    kind: 'APIService',
    metadata: { name: 'v1beta1.external.metrics.k8s.io' },
    spec: {
      group: 'external.metrics.k8s.io',
      version: 'v1beta1',
      groupPriorityMinimum: 1000,
      versionPriority: 10,
      insecureSkipTLSVerify: true,
      service: { namespace, name: 'external-metrics', port },
    },
  },
]

/**
 * Serves external metrics, which autoscalers read.
 *
 * @param valueNow - called for each request with the name of the metric
 * @returns its port
 */
export async function startExternalMetrics(
  t: Pick<Test, 'teardown'>,
  valueNow: (metric: string) => number,
): Promise<number> {
  const authority = await Authority.create('external metrics')
  const { certificate: cert, key } = await authority.issueServing({ dns: ['localhost'], ip: [] })
  const prefix = `/apis/${groupVersion}`
  const server = createServer({ cert, key }, ({ url = '' }, response) => {
    const { pathname } = new URL(url, 'https://localhost')
    const metricName = /\/namespaces\/[^/]+\/([^/]+)$/.exec(pathname)?.[1]
    const resource = {
      name: 'queue',
      singularName: '',
      namespaced: true,
      kind: 'ExternalMetricValueList',
      verbs: ['get'],
    }
    const timestamp = new Date().toISOString().replace(/\.\d+Z$/, 'Z')
    const found =
      pathname === prefix
        ? { kind: 'APIResourceList', apiVersion: 'v1', groupVersion, resources: [resource] }
        : metricName !== undefined && {
            kind: 'ExternalMetricValueList',
            apiVersion: groupVersion,
            metadata: {},
            items: [{ metricName, metricLabels: {}, timestamp, value: String(valueNow(metricName)) }],
          }
    const body = found || { kind: 'Status', apiVersion: 'v1', status: 'Failure', code: 404 }
    response.writeHead(found ? 200 : 404, { 'content-type': 'application/json' })
    response.end(JSON.stringify(body))
  })
  await once(server.listen(0, '127.0.0.1'), 'listening')
  t.teardown(() => {
    server.closeAllConnections()
    server.close()
  })
  return (server.address() as AddressInfo).port
}
