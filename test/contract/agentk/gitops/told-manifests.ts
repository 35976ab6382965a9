import type { ObjectTree } from '../../../../src/agentk/modules/gitops/manifests/manifest.ts'
import type { ObjectKey } from '../../../../src/kubernetes/key.ts'
import { keyOf } from './ground.ts'

/** Manifests of ten kinds, as Git has them. */

const metadata = (name: string) => ({
  name,
  namespace: 'shop',
  labels: { team: 'shop' },
  annotations: { note: 'git' },
})
const container = {
  name: 'web',
  image: 'nginx:1',
  args: ['a', 'b'],
  env: [
    { name: 'A', value: '1' },
    { name: 'B', value: '2' },
  ],
  resources: { limits: { cpu: '1' } },
}
const rbac = 'rbac.authorization.k8s.io'

const workload = (kind: string, more: object = {}) => ({
  group: 'apps',
  version: 'v1',
  of: (name: string) => ({
    kind,
    spec: {
      selector: { matchLabels: { app: name } },
      template: { metadata: { labels: { app: name } }, spec: { serviceAccountName: 'web', containers: [container] } },
      ...more,
    },
  }),
})

const templates = {
  Deployment: workload('Deployment', { replicas: 2 }),
  StatefulSet: workload('StatefulSet', { replicas: 2, serviceName: 'web' }),
  DaemonSet: workload('DaemonSet'),
  CronJob: {
    group: 'batch',
    version: 'v1',
    of: () => ({
      spec: {
        schedule: '0 0 * * *',
        jobTemplate: { spec: { template: { spec: { restartPolicy: 'Never', containers: [container] } } } },
      },
    }),
  },
  Service: {
    group: '',
    version: 'v1',
    of: (name: string) => ({ spec: { selector: { app: name }, ports: ['a', 'b'].map(portOf) } }),
  },
  ConfigMap: { group: '', version: 'v1', of: () => ({ data: { color: 'green', size: '2' } }) },
  Secret: { group: '', version: 'v1', of: () => ({ stringData: { password: 'in-git', user: 'shop' } }) },
  Ingress: { group: 'networking.k8s.io', version: 'v1', of: () => ({ spec: { rules: [ruleOf('web.example')] } }) },
  RoleBinding: {
    group: rbac,
    version: 'v1',
    of: () => ({
      roleRef: { apiGroup: rbac, kind: 'Role', name: 'web' },
      subjects: [{ apiGroup: rbac, kind: 'User', name: 'ada' }],
    }),
  },
  Widget: { group: 'example.com', version: 'v1', of: () => ({ spec: { color: 'red', size: 1 } }) },
}

function portOf(name: string, i: number) {
  return { name, port: 80 + i }
}

/** Rule of an Ingress. */
export function ruleOf(host: string) {
  const backend = { service: { name: 'web', port: { number: 80 } } }
  return { host, http: { paths: [{ path: '/', pathType: 'Prefix', backend }] } }
}

export type ToldKind = keyof typeof templates
export const toldKinds = Object.keys(templates) as readonly ToldKind[]

export function toldKey(kind: ToldKind, name: string): ObjectKey {
  return keyOf(kind, name, 'shop', templates[kind].group)
}

export function toldManifest(kind: ToldKind, name: string): ObjectTree {
  const { group, version, of } = templates[kind]
  const apiVersion = group ? `${group}/${version}` : version
  return { apiVersion, kind, metadata: metadata(name), ...of(name) }
}
