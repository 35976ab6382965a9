import { stringify } from 'yaml'

/** number of objects in one file */
const appObjects = 10
const settingsMaps = 4
/** Label of the objects of one tool, which is its value. */
export const toolLabel = 'bench.example.com/tool'

/** Paths where the objects are listed. */
export const collections = [
  '/api/v1/namespaces',
  '/api/v1/configmaps',
  '/api/v1/secrets',
  '/api/v1/serviceaccounts',
  '/api/v1/services',
  '/apis/apps/v1/deployments',
  '/apis/rbac.authorization.k8s.io/v1/roles',
  '/apis/rbac.authorization.k8s.io/v1/rolebindings',
] as const

export interface AppObject {
  readonly apiVersion: string
  readonly kind: string
  readonly metadata: { readonly name: string; readonly namespace: string; readonly labels: object }
}

/** `objects` objects of one tool: namespaces, and apps in them, a file each. */
export class ObjectSet {
  readonly #tool: string
  readonly namespaces: readonly string[]
  readonly apps: number
  readonly count: number

  constructor(tool: string, objects: number, namespaces = 10) {
    this.#tool = tool
    this.namespaces = Array.from({ length: namespaces }, (_, i) => `${tool}-${i}`)
    this.apps = Math.max(1, Math.floor((objects - namespaces) / appObjects))
    this.count = namespaces + this.apps * appObjects
  }

  /** Returns all files, by path. */
  files(): Record<string, string> {
    const all = this.namespaces.map((name) => ({
      apiVersion: 'v1',
      kind: 'Namespace',
      metadata: { name, labels: this.#labels },
    }))
    const apps = Array.from({ length: this.apps }, (_, app) => this.file(app, '0'))
    return { [`${this.#tool}/0-namespaces.yaml`]: documents(all), ...Object.assign({}, ...apps) }
  }

  /** Returns the file of one app. One of its objects contains the version. */
  file(app: number, version: string): Record<string, string> {
    return { [`${this.#tool}/${nameOf(app)}.yaml`]: documents(this.objects(app, version)) }
  }

  /** Returns the objects of one app. */
  objects(app: number, version = '0'): AppObject[] {
    return this.#objects(nameOf(app), this.#namespace(app), version)
  }

  get #labels(): Record<string, string> {
    return { [toolLabel]: this.#tool }
  }

  #namespace(app: number): string {
    return this.namespaces[app % this.namespaces.length] as string
  }

  #objects(app: string, namespace: string, version: string): AppObject[] {
    const labels = { ...this.#labels, app }
    const of = (apiVersion: string, kind: string, rest: object, name = app) => ({
      ...{ apiVersion, kind, metadata: { name, namespace, labels } },
      ...rest,
    })
    const rbac = 'rbac.authorization.k8s.io'
    const rules = [{ apiGroups: [''], resources: ['configmaps'], verbs: ['get', 'list', 'watch'] }]
    const maps = Array.from({ length: settingsMaps }, (_, i) =>
      of('v1', 'ConfigMap', { data: settings(i === 0 ? { version } : {}) }, `${app}-${i}`),
    )
    return [
      of('apps/v1', 'Deployment', { spec: deployment(app) }),
      of('v1', 'Service', { spec: { clusterIP: 'None', selector: { app }, ports: [{ port: 80, targetPort: 8080 }] } }),
      of('v1', 'ServiceAccount', {}),
      of('v1', 'Secret', { stringData: { password: 'p'.repeat(24) } }),
      of(`${rbac}/v1`, 'Role', { rules }),
      of(`${rbac}/v1`, 'RoleBinding', {
        roleRef: { apiGroup: rbac, kind: 'Role', name: app },
        subjects: [{ kind: 'ServiceAccount', name: app, namespace }],
      }),
      ...maps,
    ]
  }
}

const nameOf = (app: number) => `app-${String(app).padStart(3, '0')}`

const settings = (more: Record<string, string>) => ({
  ...Object.fromEntries(Array.from({ length: 10 }, (_, i) => [`setting_${i}`, `a value of some length, number ${i}`])),
  ...more,
})

const deployment = (app: string) => ({
  replicas: 2,
  selector: { matchLabels: { app } },
  template: {
    metadata: { labels: { app } },
    spec: {
      serviceAccountName: app,
      containers: ['web', 'proxy'].map((name, i) => ({
        name,
        image: `registry.example/${name}:1.27.3`,
        ports: [{ containerPort: 8080 + i }],
        env: Array.from({ length: 6 }, (_, n) => ({ name: `SETTING_${n}`, value: `value-${n}` })),
        resources: { requests: { cpu: '100m', memory: '128Mi' }, limits: { memory: '256Mi' } },
      })),
    },
  },
})

const documents = (objects: readonly object[]) => objects.map((object) => stringify(object)).join('---\n')
