import type { ObjectRecord } from '../store/record.ts'
import type { SyntheticNode } from './forest-node.ts'
import { type Applications, Memberships } from './memberships.ts'
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
  /** of the view `object`: those that are asked for, and what is below them */
  readonly #chosen: Set<string> | undefined

  constructor(query: ReadQuery, verdicts: Verdicts, applications: Applications) {
    this.#query = query
    this.#verdicts = verdicts
    this.#applications = applications
    const { environment, application, view } = query
    if (environment || application || view === 'environments') this.#memberships = new Memberships(applications)
    if (view === 'object') this.#chosen = new Set()
  }

  /** Objects that it keeps something of. */
  get size(): number {
    return (this.#memberships?.size ?? 0) + (this.#chosen?.size ?? 0)
  }

  /**
   * Before anything else is asked of an object, whenever it changed or what is above it.
   *
   * @param record - undefined: it is not seen any more
   * @returns whether those below it are to be placed anew
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

  /** It may be shown, for its own sake or for that of one below it. */
  holds({ uid, namespace }: ObjectRecord): boolean {
    const { namespaces, environment, application, view } = this.#query
    if (namespaces && !namespaces.has(namespace)) return false
    const of = this.#memberships?.of(uid)
    if (view === 'environments' && !of?.environment) return false
    if (environment && of?.environment !== environment) return false
    return !application || of?.application === application || of?.source === application
  }

  /** The filter lets it through. */
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

  /** The group below which it stands, unless its parent does. */
  groupOf(record: ObjectRecord): SyntheticNode | undefined {
    const inEnvironments = this.#query.view === 'environments'
    const name = inEnvironments ? this.#memberships?.of(record.uid).environment : this.#applications.of(record)
    if (!name) return undefined
    const kind = inEnvironments ? 'Environment' : 'Application'
    return { what: 'group', id: `g:${kind.toLowerCase()}/${name}`, kind, name, namespace: '' }
  }
}
