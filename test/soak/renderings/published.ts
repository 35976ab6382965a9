import type { Rendering } from './compared.ts'

/** Go modules with charts and overlays that their projects publish. */
export interface PublishedModule {
  /** module and version, as `go mod download` accepts them */
  readonly module: string
  /** the folder that is the commit; for a chart alone its own folder */
  readonly of: readonly { readonly folder: string; readonly renderings: readonly Rendering[] }[]
}

const charts = (...folders: string[]) => folders.map((folder) => ({ folder, renderings: [{ helm: folder }] }))
const overlays = (folder: string, ...names: string[]) => ({
  folder,
  renderings: names.map((name) => ({ kustomize: name === '.' ? folder : `${folder}/${name}` })),
})

export const published: readonly PublishedModule[] = [
  {
    module: 'sigs.k8s.io/metrics-server@v0.9.0',
    of: [
      ...charts('charts/metrics-server'),
      overlays(
        'manifests',
        'base',
        ...['release', 'release-ha', 'release-ha-1.21+', 'test', 'test-ha'].map((name) => `overlays/${name}`),
      ),
    ],
  },
  {
    module: 'sigs.k8s.io/descheduler@v0.36.0',
    of: [...charts('charts/descheduler'), overlays('kubernetes', 'base', 'cronjob', 'deployment', 'job')],
  },
  {
    module: 'sigs.k8s.io/kueue@v0.17.0',
    of: [
      ...charts('charts/kueue'),
      overlays(
        'config',
        'alpha-enabled',
        'default',
        'dev',
        'kueueviz',
        'prometheus',
        'visibility-apf',
        'components/certmanager',
        'components/manager',
        'components/rbac',
        'components/webhook',
      ),
      overlays('cmd', 'importer/run-in-cluster'),
    ],
  },
  {
    module: 'github.com/kedacore/keda/v2@v2.21.0',
    of: [overlays('config', 'crd', 'default', 'e2e', 'manager', 'metrics-server', 'minimal', 'rbac', 'webhooks')],
  },
  {
    module: 'sigs.k8s.io/cluster-api@v1.14.2',
    of: [
      overlays('core', 'config/default', 'config/metrics', 'config/manager', 'config/webhook'),
      overlays('bootstrap', 'kubeadm/config/default', 'kubeadm/config/rbac', 'kubeadm/config/webhook'),
      overlays('controlplane', 'kubeadm/config/crd', 'kubeadm/config/certmanager'),
    ],
  },
  {
    module: 'github.com/argoproj/argo-cd/v2@v2.14.21',
    of: [
      ...charts('applicationset/examples/git-generator-directory/excludes/cluster-addons/exclude-helm-guestbook'),
      overlays('manifests', 'base', 'cluster-install', 'cluster-rbac'),
    ],
  },
  { module: 'github.com/kyverno/kyverno@v1.19.1', of: charts('charts/kyverno-policies') },
]
