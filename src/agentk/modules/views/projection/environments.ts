import { entryAt, type KubernetesObject, textAt } from '../../../../kubernetes/object.ts'
import { projectLabel, slugLabel } from '../../../../proto/marks.ts'
import { maxName } from './bounds.ts'

/** @returns `<project id>/<slug>` of the object's own labels; empty: none */
export function environmentOf(object: KubernetesObject): string {
  const project = entryAt(object, 'metadata.labels', projectLabel)
  const slug = entryAt(object, 'metadata.labels', slugLabel)
  return /^\d{1,19}$/.test(project) && slug !== '' && slug.length <= maxName ? `${project}/${slug}` : ''
}

/** What belongs to an environment by what kas knows, whatever its labels of GitLab say. */
export interface ListedEnvironment {
  /** `<project id>/<slug>` */
  readonly key: string
  /** empty: any */
  readonly namespace: string
  /** labels that an object has */
  readonly selector: Readonly<Record<string, string>>
}

/**
 * The first environment that is listed for an object, else that of its labels: anyone may set these, so they put nothing
 * into one that is listed.
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
