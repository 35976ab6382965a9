import { entryAt, type KubernetesObject, textAt } from '../../../../kubernetes/object.ts'
import { maxName } from './bounds.ts'
import { applicationKind, helmReleaseKind, kustomizationKind, trackedApplication, usualNamespace } from './deployers.ts'

/** Application that an object in another namespace names; not yet believed. */
export interface Claim {
  /** `<namespace>/<name>`; the name alone if no namespace is named */
  readonly application: string
  /** kind of the object that represents the application, `group/Kind`; empty: there is none */
  readonly kind: string
  readonly namespace: string
  readonly name: string
}

interface Marked {
  readonly namespace: string
  readonly name: string
  /** kind of the object that represents the application; empty: there is none */
  readonly kind: string
  /** namespace of that object; default: `namespace` */
  readonly home?: string
}

type Mark = (kind: string, object: KubernetesObject) => Marked

const labels = 'metadata.labels'
const annotations = 'metadata.annotations'

const flux =
  (controller: string, kind: string): Mark =>
  (_, object) => ({
    namespace: entryAt(object, labels, `${controller}.toolkit.fluxcd.io/namespace`),
    name: entryAt(object, labels, `${controller}.toolkit.fluxcd.io/name`),
    kind,
  })

const argo: Mark = (kind, object) => {
  const { namespace = '', name = entryAt(object, labels, 'argocd.argoproj.io/instance') } =
    trackedApplication(kind, object) ?? {}
  return { namespace, name, kind: applicationKind, home: namespace || usualNamespace }
}

const helm: Mark = (_, object) => ({
  namespace: entryAt(object, annotations, 'meta.helm.sh/release-namespace'),
  name: entryAt(object, annotations, 'meta.helm.sh/release-name'),
  kind: '',
})

/** Label that Kubernetes recommends: it names an application in the object's own namespace. */
const recommended =
  (label: string): Mark =>
  (_, object) => ({
    namespace: textAt(object, 'metadata.namespace'),
    name: entryAt(object, labels, `app.kubernetes.io/${label}`),
    kind: '',
  })

/** Marks in order: deployers first, the nearest before the others; then names. */
const marks: readonly Mark[] = [
  flux('helm', helmReleaseKind),
  flux('kustomize', kustomizationKind),
  argo,
  helm,
  recommended('part-of'),
  recommended('instance'),
  recommended('name'),
]

/**
 * Reads the application that an object names. Users who can write to one namespace can write any mark there. So a mark
 * counts for an object in its application's own namespace, or in none. Any other mark is a claim, beside the next mark
 * that counts.
 *
 * @param kind - `group/Kind`
 * @returns `<namespace>/<name>`; the name alone if no namespace is named; empty: none
 */
export function applicationOf(
  kind: string,
  object: KubernetesObject,
): { readonly application: string; readonly claim: Claim | undefined } {
  const own = textAt(object, 'metadata.namespace')
  let claim: Claim | undefined
  for (const mark of marks) {
    const { namespace, name, kind: deployer, home = namespace } = mark(kind, object)
    if (name === '' || name.length + namespace.length > maxName) continue
    const application = namespace ? `${namespace}/${name}` : name
    if (own === '' || own === home) return { application, claim }
    claim ??= { application, kind: deployer, namespace: home, name }
  }
  return { application: '', claim }
}
