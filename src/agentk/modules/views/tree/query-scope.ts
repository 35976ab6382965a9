import type { ObjectRecord } from '../store/record.ts'
import type { Words } from './forest-node.ts'
import { type Applications, Memberships } from './groups.ts'
import type { Above } from './owners.ts'
import type { ReadQuery } from './query.ts'
import { type VerdictSide, wordsOf } from './severity.ts'

/** By whose verdicts a filter goes. */
export interface Verdicts {
  readonly side: VerdictSide
  readonly severityOf: (record: ObjectRecord) => number
}

/** What a query asks for, of what is seen, and by which groups. */
export class QueryScope {
  readonly #query: ReadQuery
  readonly #verdicts: Verdicts
  readonly #applications: Applications
  /** undefined: nothing depends on them */
  readonly #memberships: Memberships | undefined

  constructor(query: ReadQuery, verdicts: Verdicts, applications: Applications) {
    this.#query = query
    this.#verdicts = verdicts
    this.#applications = applications
    const { environment, application, view } = query
    if (environment || application || view === 'environments') this.#memberships = new Memberships(applications)
  }

  /** Objects that it keeps something of. */
  get size(): number {
    return this.#memberships?.size ?? 0
  }

  /**
   * Before anything else is asked of an object, whenever it changed or what is above it.
   *
   * @param record - undefined: it is not seen any more
   * @returns whether those below it are to be placed anew
   */
  place(uid: string, record: ObjectRecord | undefined, above: Above): boolean {
    return this.#memberships?.place(uid, record, above) ?? false
  }

  /** It may be shown, for its own sake or for that of one below it. */
  holds({ uid, namespace }: ObjectRecord): boolean {
    const { namespaces, environment, application, view } = this.#query
    if (namespaces && !namespaces.has(namespace)) return false
    const of = this.#memberships?.of(uid)
    if (view === 'environments' && !of?.environment) return false
    return (!environment || of?.environment === environment) && (!application || of?.application === application)
  }

  /** The filter lets it through. */
  isAskedFor(record: ObjectRecord): boolean {
    const { name, kind } = record
    const { text, kinds, verdicts } = this.#query
    if (text && !name.toLowerCase().includes(text)) return false
    if (kinds && !kinds.has(kind.key)) return false
    const { side, severityOf } = this.#verdicts
    return !verdicts || verdicts.has(wordsOf(side)[severityOf(record)] ?? '')
  }

  /** The group below which it stands, unless its parent does. */
  groupOf(record: ObjectRecord): Words | undefined {
    const inEnvironments = this.#query.view === 'environments'
    const name = inEnvironments ? this.#memberships?.of(record.uid).environment : this.#applications.of(record)
    if (!name) return undefined
    const kind = inEnvironments ? 'Environment' : 'Application'
    return { what: 'group', id: `g:${kind.toLowerCase()}/${name}`, kind, name, namespace: '' }
  }
}
