import { entryAt, type KubernetesObject } from '../../health/object.ts'
import { maxName } from './projection/bounds.ts'

/** Of GitLab, on what is deployed to an environment. */
const projectLabel = 'app.gitlab.com/project_id'
const slugLabel = 'app.gitlab.com/environment_slug'

/** @returns `<project id>/<slug>` of the object's own labels; empty: none */
export function environmentOf(object: KubernetesObject): string {
  const project = entryAt(object, 'metadata.labels', projectLabel)
  const slug = entryAt(object, 'metadata.labels', slugLabel)
  return /^\d{1,19}$/.test(project) && slug !== '' && slug.length <= maxName ? `${project}/${slug}` : ''
}
