import { kindKey } from '../../../../kubernetes/kind.ts'
import { entryAt, type KubernetesObject, listAt, textAt } from '../../../../kubernetes/object.ts'
import { maxName, maxReferences } from './bounds.ts'
import type { Projector, Reference } from './projector.ts'
import { suspendedOf } from './workloads.ts'

/** Argo CD and Flux: objects that they deploy, and marks of these objects. */

/** characters of a commit */
const commitLength = 8
/** `<application>:<group>/<Kind>:<namespace>/<name>`; outside Argo CD's namespace, `<namespace>_` comes first. */
const trackingAnnotation = 'argocd.argoproj.io/tracking-id'
/** Argo CD's namespace, unless it is configured otherwise. */
export const usualNamespace = 'argocd'

export const applicationKind = 'argoproj.io/Application'

export const argoApplication: Projector = (object) => ({
  facts: [textAt(object, 'status.sync.status'), textAt(object, 'status.sync.revision').slice(0, commitLength)],
  references: listAt(object, 'status.resources')
    .slice(0, maxReferences)
    .map((one) => ({
      relation: 'deploys',
      kind: kindKey(textAt(one, 'group'), textAt(one, 'kind')),
      namespace: textAt(one, 'namespace'),
      name: textAt(one, 'name'),
    })),
})

export function trackedBy(kind: string, object: KubernetesObject): Reference | undefined {
  const application = trackedApplication(kind, object)
  if (!application) return undefined
  const { namespace = usualNamespace, name } = application
  return { relation: 'deployed by', kind: applicationKind, namespace, name }
}

/** Returns the Application of Argo CD that names this very object: annotations are copied to other objects. */
export function trackedApplication(
  kind: string,
  object: KubernetesObject,
): { namespace?: string; name: string } | undefined {
  const id = entryAt(object, 'metadata.annotations', trackingAnnotation)
  const [, application = '', group = '', ofKind = '', place = '', name] =
    /^([^:]+):([^/:]*)\/([^:]+):([^/]*)\/(.+)$/.exec(id) ?? []
  const namespace = textAt(object, 'metadata.namespace')
  // for a cluster-scoped object, the id has the namespace of its Application's destination
  const isIts = kindKey(group, ofKind) === kind && name === textAt(object, 'metadata.name')
  if (!isIts || (namespace !== '' && namespace !== place)) return undefined
  const underscore = application.indexOf('_')
  if (underscore < 0) return { name: application }
  return { namespace: application.slice(0, underscore), name: application.slice(underscore + 1) }
}

export const kustomizationKind = 'kustomize.toolkit.fluxcd.io/Kustomization'
export const helmReleaseKind = 'helm.toolkit.fluxcd.io/HelmRelease'

export const fluxKustomization: Projector = (object) => ({
  facts: [textAt(object, 'status.lastAppliedRevision'), suspendedOf(object)],
  references: inventoryOf(object),
})

export const fluxHelmRelease: Projector = (object) => {
  const [newest] = listAt(object, 'status.history')
  const [chart, version] = [textAt(newest, 'chartName'), textAt(newest, 'chartVersion')]
  return {
    facts: [chart && version ? `${chart}@${version}` : '', suspendedOf(object)],
    // older HelmReleases have no inventory
    references: [...targetOf(object), ...inventoryOf(object)],
  }
}

function targetOf(object: KubernetesObject): readonly Reference[] {
  const name = textAt(object, 'spec.targetNamespace')
  return name === '' ? [] : [{ relation: 'deploys into', kind: 'Namespace', namespace: '', name }]
}

function inventoryOf(object: KubernetesObject): readonly Reference[] {
  return listAt(object, 'status.inventory.entries')
    .slice(0, maxReferences)
    .flatMap((entry) => toReference(textAt(entry, 'id')))
}

/** Reads `<namespace>_<name>_<group>_<Kind>`, as cli-utils writes it; a colon in a name is two underscores. */
function toReference(id: string): Reference[] {
  if (id.length > 4 * maxName) return []
  const [, namespace = '', name = '', group = '', kind = ''] = /^([^_]*)_(.+)_([^_]*)_([^_]+)$/.exec(id) ?? []
  return name ? [{ relation: 'deploys', kind: kindKey(group, kind), namespace, name: name.replaceAll('__', ':') }] : []
}
