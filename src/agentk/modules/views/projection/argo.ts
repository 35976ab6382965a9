import { entryAt, type KubernetesObject, listAt, textAt } from '../../../../kubernetes/object.ts'
import { maxReferences } from './bounds.ts'
import { inGroup } from './metadata.ts'
import type { Projector, Reference } from './projector.ts'

/** characters of a commit */
const commitLength = 8
/** `<application>:<group>/<Kind>:<namespace>/<name>`; the application's namespace stands before `_`, if not Argo CD's. */
const trackingAnnotation = 'argocd.argoproj.io/tracking-id'
/** Where Argo CD stands unless it is configured otherwise. */
export const usualNamespace = 'argocd'

export const applicationKind = 'argoproj.io/Application'

export const argoApplication: Projector = (object) => ({
  facts: [textAt(object, 'status.sync.status'), textAt(object, 'status.sync.revision').slice(0, commitLength)],
  references: listAt(object, 'status.resources')
    .slice(0, maxReferences)
    .map((one) => ({
      relation: 'deploys',
      kind: inGroup(textAt(one, 'group'), textAt(one, 'kind')),
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

/** The Application of Argo CD that says so of this very object: annotations are copied to others. */
export function trackedApplication(
  kind: string,
  object: KubernetesObject,
): { namespace?: string; name: string } | undefined {
  const id = entryAt(object, 'metadata.annotations', trackingAnnotation)
  const [, application = '', group = '', ofKind = '', place = '', name] =
    /^([^:]+):([^/:]*)\/([^:]+):([^/]*)\/(.+)$/.exec(id) ?? []
  const namespace = textAt(object, 'metadata.namespace')
  // one in no namespace has that of its Application's destination there
  const isIts = inGroup(group, ofKind) === kind && name === textAt(object, 'metadata.name')
  if (!isIts || (namespace !== '' && namespace !== place)) return undefined
  const underscore = application.indexOf('_')
  if (underscore < 0) return { name: application }
  return { namespace: application.slice(0, underscore), name: application.slice(underscore + 1) }
}
