import { parseKindKey, type ResourceKind } from '../../../../kubernetes/kind.ts'
import { builtInKind } from '../../../../kubernetes/kind-words.ts'
import type { FollowState, FollowStates, ReadonlyRecords, Visibility } from '../store/record.ts'
import type { GraphKind } from './graph-selection.ts'

/** versions of Kubernetes' own groups that are not at v1 */
const versions: Readonly<Record<string, string>> = { autoscaling: 'v2' }

export interface GraphKindsComponents {
  readonly records: Pick<ReadonlyRecords, 'kindOf'>
  readonly states: FollowStates
  readonly visibility: Visibility
}

/** Kinds of objects that are named, at one moment. A kind that the caller may not list is known by its name alone. */
export class GraphKinds {
  readonly #components: GraphKindsComponents
  readonly #states: ReadonlyMap<string, FollowState>
  readonly #served = new Map<string, ResourceKind | undefined>()
  /** kinds as their names show them */
  readonly #byName = new Map<string, GraphKind>()

  constructor(components: GraphKindsComponents) {
    this.#components = components
    this.#states = new Map(Array.from(components.states.all(), ([{ key }, state]) => [key, state]))
  }

  /**
   * @param key - `group/Kind`
   * @returns the kind as the API server has it, if the caller may list it; else by its name
   */
  of(key: string, namespace: string): GraphKind {
    return this.#listed(key, namespace) ?? this.#ofName(key)
  }

  /** True if it is known that an object without a record does not exist. */
  isAbsent(key: string, namespace: string, name: string): boolean {
    const state = this.#states.get(key)
    return this.#listed(key, namespace) !== undefined && state !== undefined && isKnown(state, namespace, name)
  }

  #listed(key: string, namespace: string): ResourceKind | undefined {
    const { records, visibility } = this.#components
    if (!this.#served.has(key)) this.#served.set(key, records.kindOf(key))
    const kind = this.#served.get(key)
    return kind && visibility.mayList(kind, kind.isNamespaced ? namespace : '') ? kind : undefined
  }

  #ofName(key: string): GraphKind {
    const known = this.#byName.get(key)
    if (known) return known
    const { group, kind: name } = parseKindKey(key)
    const { plural, isNamespaced } = builtInKind(key) ?? { plural: pluralOf(name), isNamespaced: true }
    const version = builtInKind(key) ? (versions[group] ?? 'v1') : ''
    const kind = { group, version, plural, isNamespaced }
    this.#byName.set(key, kind)
    return kind
  }
}

function isKnown({ is, isPartial, refusedNamespaces, leftOut }: FollowState, namespace: string, name: string): boolean {
  if (is !== 'live' || isPartial || refusedNamespaces.includes(namespace)) return false
  return !leftOut.some((one) => one.namespace === namespace && one.name === name)
}

/** Guesses the plural as Kubernetes does (`UnsafeGuessKindToResource` of apimachinery). */
function pluralOf(kind: string): string {
  const name = kind.toLowerCase()
  if (name.endsWith('s')) return `${name}es`
  return name.endsWith('y') ? `${name.slice(0, -1)}ies` : `${name}s`
}
