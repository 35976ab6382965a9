import type { KubernetesObject } from '../../../dev/control-plane/api-client.ts'

/** Objects that run on real nodes: a Pod is busybox, whose server is ready when its file `ready` exists. */

export const image = 'busybox:1'
const port = 8080

export interface ContainerOptions {
  readonly name?: string
  /** script of a shell; absent: `serving()` */
  readonly script?: string
  /** more fields of the container */
  readonly more?: KubernetesObject
}

/**
 * Returns the script of a server. `readyAfter`: seconds; `beside`: a command that runs beside it, and whose end ends
 * the server
 */
export function serving({ readyAfter = 0, beside }: { readyAfter?: number; beside?: string } = {}): string {
  const folder = '/tmp/served'
  const begin = `mkdir -p ${folder}; (sleep ${readyAfter}; echo yes >${folder}/ready) &`
  return beside === undefined
    ? `${begin} exec httpd -f -p ${port} -h ${folder}`
    : `${begin} httpd -p ${port} -h ${folder}; ${beside}`
}

/** Script of a server that is never ready. */
export const neverReady = `mkdir /tmp/served; exec httpd -f -p ${port} -h /tmp/served`

export const probe = (more: KubernetesObject = {}) => ({ httpGet: { path: '/ready', port }, periodSeconds: 1, ...more })

export function container({ name = 'main', script = serving(), more = {} }: ContainerOptions = {}): KubernetesObject {
  return { name, image, imagePullPolicy: 'IfNotPresent', command: ['sh', '-c', script], ...more }
}

/** A container with a server and a readiness probe. */
export const server = ({ more = {}, ...options }: ContainerOptions = {}) =>
  container({ ...options, more: { readinessProbe: probe(), ...more } })

/** Spec of a Pod: with one container that serves, unless `more` replaces it. */
export const podSpec = (more: KubernetesObject = {}) => ({
  terminationGracePeriodSeconds: 1,
  containers: [server()],
  ...more,
})

export interface WorkloadOptions {
  readonly namespace: string
  readonly name?: string
  readonly replicas?: number
  readonly pod?: KubernetesObject
  readonly spec?: KubernetesObject
}

function workload(kind: string, options: WorkloadOptions): KubernetesObject {
  const { namespace, name = 'web', replicas = 2, pod = podSpec(), spec = {} } = options
  const labels = { app: name }
  const template = { metadata: { labels }, spec: pod }
  const count = kind === 'DaemonSet' ? {} : { replicas }
  return {
    apiVersion: 'apps/v1',
    kind,
    metadata: { name, namespace },
    spec: { ...count, selector: { matchLabels: labels }, template, ...spec },
  }
}

export const deployment = (options: WorkloadOptions) => workload('Deployment', options)
export const daemonSet = (options: WorkloadOptions) => workload('DaemonSet', options)
export const statefulSet = (options: WorkloadOptions) =>
  workload('StatefulSet', { ...options, spec: { serviceName: options.name ?? 'web', ...options.spec } })

/** A Job of Pods whose only container runs the script, and is not restarted. */
export function job(
  { namespace, name = 'job', script }: { namespace: string; name?: string; script: string },
  { pod = {}, spec = {}, metadata = {} }: Record<'pod' | 'spec' | 'metadata', KubernetesObject> | KubernetesObject = {},
): KubernetesObject {
  const containers = [container({ script, more: { terminationMessagePolicy: 'FallbackToLogsOnError' } })]
  const template = { spec: { restartPolicy: 'Never', terminationGracePeriodSeconds: 1, containers, ...pod } }
  return {
    apiVersion: 'batch/v1',
    kind: 'Job',
    metadata: { name, namespace, ...metadata },
    spec: { template, ...spec },
  }
}

export const namespaceOf = (name: string) => ({ apiVersion: 'v1', kind: 'Namespace', metadata: { name } })

export const service = (namespace: string, name = 'web', selector: object = { app: name }) => ({
  apiVersion: 'v1',
  kind: 'Service',
  metadata: { name, namespace },
  spec: { selector, ports: [{ port: 80, targetPort: port }] },
})

export const ingress = (namespace: string, name: string, backend: string) => ({
  apiVersion: 'networking.k8s.io/v1',
  kind: 'Ingress',
  metadata: { name, namespace },
  spec: { defaultBackend: { service: { name: backend, port: { number: 80 } } } },
})

export const quota = (namespace: string, pods: number) => ({
  apiVersion: 'v1',
  kind: 'ResourceQuota',
  metadata: { name: 'compute', namespace },
  spec: { hard: { pods: String(pods) } },
})

/** An API whose Service does not exist. */
export const deadApiService = (group: string, service: string) => ({
  apiVersion: 'apiregistration.k8s.io/v1',
  kind: 'APIService',
  metadata: { name: `v1beta1.${group}` },
  spec: {
    group,
    version: 'v1beta1',
    groupPriorityMinimum: 100,
    versionPriority: 100,
    service: { namespace: 'kube-system', name: service },
  },
})
