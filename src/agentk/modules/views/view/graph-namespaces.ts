import type { ObjectRecord, ReadonlyRecords, Visibility } from '../store/record.ts'
import type { GraphSelection } from './graph-selection.ts'

export const namespaceKey = 'Namespace'

/** Namespaces that a graph selects by their labels, among those that the caller may list. */
export class GraphNamespaces {
  readonly #records: Pick<ReadonlyRecords, 'inNamespace'>
  /** true: the namespace is selected, as it is now */
  readonly #known = new WeakMap<ObjectRecord, boolean>()
  #chosen: ReadonlySet<string> = new Set()

  constructor(records: Pick<ReadonlyRecords, 'inNamespace'>) {
    this.#records = records
  }

  /** Names of the selected namespaces, in order. */
  get chosen(): readonly string[] {
    return [...this.#chosen].sort()
  }

  /** @returns names of namespaces that are newly selected, or no longer */
  *choose(selection: GraphSelection, visibility: Visibility): Generator<undefined, ReadonlySet<string>> {
    const selected = new Set<string>()
    for (const record of this.#records.inNamespace(namespaceKey, '')) {
      const { kind, name, labels } = record
      if (visibility.mayList(kind, '')) {
        const isSelected = this.#known.get(record) ?? selection.selectsNamespace(name, labels)
        this.#known.set(record, isSelected)
        if (isSelected) selected.add(name)
      }
      yield
    }
    const before = this.#chosen
    this.#chosen = selected
    return before.symmetricDifference(selected)
  }

  /** Returns a function that is true for a namespace selected now. */
  selectedBy(selection: GraphSelection): (namespace: string) => boolean {
    if (!selection.isByLabels) return (namespace) => selection.selectsName(namespace)
    const namespaces = this.#chosen
    return (namespace) => namespaces.has(namespace)
  }
}
