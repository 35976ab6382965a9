import { entryAt, type KubernetesObject, textAt } from '../../../../kubernetes/object.ts'
import { maxName } from './bounds.ts'
import { applicationKind, helmReleaseKind, kustomizationKind, trackedApplication, usualNamespace } from './deployers.ts'

/** Of an object in another namespace than its application: what it says, not yet believed. */
export interface Claim {
  /** `<namespace>/<name>`; the name alone where no namespace is said */
  readonly application: string
  /** of the object that stands for the application: `group/Kind`, empty: there is none */
  readonly kind: string
  readonly namespace: string
  readonly name: string
}

interface Marked {
  readonly namespace: string
  readonly name: string
  /** of the object that stands for the application; empty: there is none */
  readonly kind: string
  /** of that object; default: `namespace` */
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

/** What Kubernetes recommends: of the object's own namespace. */
const recommended =
  (label: string): Mark =>
  (_, object) => ({
    namespace: textAt(object, 'metadata.namespace'),
    name: entryAt(object, labels, `app.kubernetes.io/${label}`),
    kind: '',
  })

/** What deployed it first, the nearest before the others; then what it is called. */
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
 * The application that an object says it is of. Who may write to one namespace may write any mark there: so marks are
 * believed of an object in its application's own namespace, or in none. One of elsewhere is a claim, beside the next
 * mark that is believed.
 *
 * @param kind - `group/Kind`
 * @returns `<namespace>/<name>`; the name alone where no namespace is said; empty: none
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
