import { entryAt, type KubernetesObject, textAt } from '../../health/object.ts'
import { applicationKind, trackedApplication, usualNamespace } from './projection/argo.ts'
import { maxName } from './projection/bounds.ts'
import { helmReleaseKind, kustomizationKind } from './projection/flux.ts'
import type { Claim, ObjectRecord, ReadonlyRecords, Reference } from './record.ts'

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

/** Of which application objects are, as one caller sees them. */
export class Applications {
  readonly #records: Pick<ReadonlyRecords, 'named'>
  readonly #sees: (record: ObjectRecord) => boolean
  readonly #namespaces: ReadonlySet<string> | undefined

  /** @param namespaces - those that the caller names: he knows who writes there */
  constructor(
    records: Pick<ReadonlyRecords, 'named'>,
    sees: (record: ObjectRecord) => boolean,
    namespaces: ReadonlySet<string> | undefined,
  ) {
    this.#records = records
    this.#sees = sees
    this.#namespaces = namespaces
  }

  /** A claim counts where the application's own object, as the caller sees it, lists what claims it. */
  of(record: ObjectRecord): string {
    const { application, claim, namespace } = record
    if (!claim) return application
    if (this.#namespaces?.has(namespace)) return claim.application
    const deployer = this.#records.named(claim.kind, claim.namespace, claim.name)
    return deployer && this.#sees(deployer) && lists(deployer, record) ? claim.application : application
  }
}

/** What objects of applications list, by their references, which never change and may be shared. */
const listed = new WeakMap<readonly Reference[], ReadonlySet<string>>()

function lists({ references }: ObjectRecord, { kind, namespace, name }: ObjectRecord): boolean {
  let keys = listed.get(references)
  if (!keys) {
    const deployed = references.filter(({ relation }) => relation === 'deploys' || relation === 'deploys into')
    keys = new Set(deployed.map((one) => keyOf(one.relation, one.kind, one.namespace, one.name)))
    listed.set(references, keys)
  }
  return (
    keys.has(keyOf('deploys', kind.key, namespace, name)) || keys.has(keyOf('deploys into', 'Namespace', '', namespace))
  )
}

const keyOf = (...texts: readonly string[]) => JSON.stringify(texts)
