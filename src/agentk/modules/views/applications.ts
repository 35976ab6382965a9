import { entryAt, type KubernetesObject, textAt } from '../../health/object.ts'
import { trackedApplication } from './projection/argo.ts'
import { maxName } from './projection/bounds.ts'

type Mark = (kind: string, object: KubernetesObject) => readonly [namespace: string, name: string]

const labels = 'metadata.labels'
const annotations = 'metadata.annotations'

const flux =
  (controller: string): Mark =>
  (_, object) => [
    entryAt(object, labels, `${controller}.toolkit.fluxcd.io/namespace`),
    entryAt(object, labels, `${controller}.toolkit.fluxcd.io/name`),
  ]

const argo: Mark = (kind, object) => {
  const { namespace = '', name = entryAt(object, labels, 'argocd.argoproj.io/instance') } =
    trackedApplication(kind, object) ?? {}
  return [namespace, name]
}

const helm: Mark = (_, object) => [
  entryAt(object, annotations, 'meta.helm.sh/release-namespace'),
  entryAt(object, annotations, 'meta.helm.sh/release-name'),
]

/** What Kubernetes recommends: of the object's own namespace. */
const recommended =
  (label: string): Mark =>
  (_, object) => [textAt(object, 'metadata.namespace'), entryAt(object, labels, `app.kubernetes.io/${label}`)]

/** What deployed it first, the nearest before the others; then what it is called. */
const marks: readonly Mark[] = [
  flux('helm'),
  flux('kustomize'),
  argo,
  helm,
  recommended('part-of'),
  recommended('instance'),
  recommended('name'),
]

/**
 * The application that an object says it is of.
 *
 * @param kind - `group/Kind`
 * @returns `<namespace>/<name>`; the name alone where no namespace is said; empty: none
 */
export function applicationOf(kind: string, object: KubernetesObject): string {
  for (const mark of marks) {
    const [namespace, name] = mark(kind, object)
    if (name !== '' && name.length + namespace.length <= maxName) return namespace ? `${namespace}/${name}` : name
  }
  return ''
}
