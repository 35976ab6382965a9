import type { ObjectRecord } from '../store/record.ts'
import type { SyntheticNode } from './forest-node.ts'
import { type Applications, Memberships } from './memberships.ts'
import type { Above } from './owners.ts'
import type { ReadQuery } from './query.ts'
import { type VerdictSide, wordsOf } from './severity.ts'

/** Verdicts by which a filter selects. */
export interface Verdicts {
  readonly side: VerdictSide
  readonly severityOf: (record: ObjectRecord) => number
}

/** Objects that a query asks for, of those that are seen, and their groups. */
export class QueryScope {
  readonly #query: ReadQuery
  readonly #verdicts: Verdicts
  readonly #applications: Applications
  /** undefined: nothing depends on memberships */
  readonly #memberships: Memberships | undefined
  /** for the view `object`: the objects that are asked for, and what is below them */
  readonly #chosen: Set<string> | undefined

  constructor(query: ReadQuery, verdicts: Verdicts, applications: Applications) {
    this.#query = query
    this.#verdicts = verdicts
    this.#applications = applications
    const { environment, application, view } = query
    if (environment || application || view === 'environments') this.#memberships = new Memberships(applications)
    if (view === 'object') this.#chosen = new Set()
  }

  /** Number of entries that are kept about objects. */
  get size(): number {
    return (this.#memberships?.size ?? 0) + (this.#chosen?.size ?? 0)
  }

  /**
   * Must be called first when an object, or what is above it, has changed.
   *
   * @param record - undefined: it is no longer seen
   * @returns true if objects below it are to be placed again
   */
  place(uid: string, record: ObjectRecord | undefined, above: Above): boolean {
    const isMoved = this.#memberships?.place(uid, record, above) ?? false
    return this.#choose(uid, record, above) || isMoved
  }

  #choose(uid: string, record: ObjectRecord | undefined, above: Above): boolean {
    const chosen = this.#chosen
    if (!chosen) return false
    const isBelow = above?.is === 'object' && chosen.has(above.record.uid)
    const isChosen = record !== undefined && (isBelow || this.#query.objects?.has(record) === true)
    if (isChosen === chosen.has(uid)) return false
    if (isChosen) chosen.add(uid)
    else chosen.delete(uid)
    return true
  }

  /** True if the object may be shown, for its own sake or for that of one below it. */
  holds({ uid, namespace }: ObjectRecord): boolean {
    const { namespaces, environment, application, view } = this.#query
    if (namespaces && !namespaces.has(namespace)) return false
    const of = this.#memberships?.of(uid)
    if (view === 'environments' && !of?.environment) return false
    if (environment && of?.environment !== environment) return false
    return !application || of?.application === application || of?.source === application
  }

  /** True if the filter lets the object through. */
  isAskedFor(record: ObjectRecord): boolean {
    const { uid, name, kind, labels: own } = record
    const { text, kinds, verdicts, objects, labels, selects } = this.#query
    if (this.#chosen ? !this.#chosen.has(uid) : objects && !objects.has(record)) return false
    if (labels && !labels(own)) return false
    if (selects && !selects(record)) return false
    if (text && !name.toLowerCase().includes(text)) return false
    if (kinds && !kinds.has(kind.key)) return false
    const { side, severityOf } = this.#verdicts
    return !verdicts || verdicts.has(wordsOf(side)[severityOf(record)] ?? '')
  }

  /** Group of an object whose parent is not shown above it. */
  groupOf(record: ObjectRecord): SyntheticNode | undefined {
    const inEnvironments = this.#query.view === 'environments'
    const name = inEnvironments ? this.#memberships?.of(record.uid).environment : this.#applications.of(record)
    if (!name) return undefined
    const kind = inEnvironments ? 'Environment' : 'Application'
    return { what: 'group', id: `g:${kind.toLowerCase()}/${name}`, kind, name, namespace: '' }
  }
}
