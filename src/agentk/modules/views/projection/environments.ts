import { entryAt, type KubernetesObject, textAt } from '../../../../kubernetes/object.ts'
import { projectLabel, slugLabel } from '../../../../proto/marks.ts'
import { maxName } from './bounds.ts'

/** @returns `<project id>/<slug>` from the object's own labels; empty: none */
export function environmentOf(object: KubernetesObject): string {
  const project = entryAt(object, 'metadata.labels', projectLabel)
  const slug = entryAt(object, 'metadata.labels', slugLabel)
  return /^\d{1,19}$/.test(project) && slug !== '' && slug.length <= maxName ? `${project}/${slug}` : ''
}

/** Environment that kas lists, with its objects: for these, GitLab's labels do not count. */
export interface ListedEnvironment {
  /** `<project id>/<slug>` */
  readonly key: string
  /** empty: any namespace */
  readonly namespace: string
  /** labels that an object must have */
  readonly selector: Readonly<Record<string, string>>
}

/**
 * Finds the environment of an object: the first that lists it, else that of its labels. Anyone may set labels, so they
 * put nothing into an environment that is listed.
 */
export class Environments {
  readonly #listed: readonly ListedEnvironment[]
  readonly #keys: ReadonlySet<string>

  constructor(listed: readonly ListedEnvironment[]) {
    this.#listed = listed
    this.#keys = new Set(listed.map(({ key }) => key))
  }

  /** @returns `<project id>/<slug>`; empty: none */
  of(object: KubernetesObject): string {
    const listed = this.#listed.find((one) => isSelected(object, one))
    if (listed) return listed.key
    const own = environmentOf(object)
    return this.#keys.has(own) ? '' : own
  }
}

function isSelected(object: KubernetesObject, { namespace, selector }: ListedEnvironment): boolean {
  if (namespace !== '' && textAt(object, 'metadata.namespace') !== namespace) return false
  return Object.entries(selector).every(([label, value]) => entryAt(object, 'metadata.labels', label) === value)
}
