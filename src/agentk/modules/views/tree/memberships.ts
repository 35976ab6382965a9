import { inventoryLabel } from '../../../../proto/marks.ts'
import type { Reference } from '../projection/projector.ts'
import type { ObjectRecord, ReadonlyRecords } from '../store/record.ts'
import type { Above } from './owners.ts'

/** Finds the applications of objects, as one caller sees them. */
export class Applications {
  readonly #records: Pick<ReadonlyRecords, 'named'>
  readonly #sees: (record: ObjectRecord) => boolean
  readonly #namespaces: ReadonlySet<string> | undefined

  /** @param namespaces - namespaces that the caller names, and so trusts */
  constructor(
    records: Pick<ReadonlyRecords, 'named'>,
    sees: (record: ObjectRecord) => boolean,
    namespaces: ReadonlySet<string> | undefined,
  ) {
    this.#records = records
    this.#sees = sees
    this.#namespaces = namespaces
  }

  /**
   * Returns an object's application. A claim counts if the application's own object, as the caller sees it, lists this
   * one.
   */
  of(record: ObjectRecord): string {
    const { application, claim, namespace } = record
    if (!claim) return application
    if (this.#namespaces?.has(namespace)) return claim.application
    const deployer = this.#records.named(claim.kind, claim.namespace, claim.name)
    return deployer && this.#sees(deployer) && lists(deployer, record) ? claim.application : application
  }
}

/** Objects that applications list, by the list of references, which never changes and may be shared. */
const listed = new WeakMap<readonly Reference[], ReadonlySet<string>>()

function lists({ references }: ObjectRecord, { kind, namespace, name }: ObjectRecord): boolean {
  let keys = listed.get(references)
  if (!keys) {
    const deployed = references.filter(({ relation }) => relation === 'deploys' || relation === 'deploys into')
    keys = new Set(deployed.map((one) => keyOf(one.relation, one.kind, one.namespace, one.name)))
    listed.set(references, keys)
  }
  return (
    keys.has(keyOf('deploys', kind.key, namespace, name)) || keys.has(keyOf('deploys into', 'Namespace', '', namespace))
  )
}

const keyOf = (...texts: readonly string[]) => JSON.stringify(texts)

/** Environment and application of an object; empty: none. */
interface Membership {
  readonly environment: string
  readonly application: string
  /**
   * id of the GitOps source that made the object, by its label. Anyone may write it: it counts only if a query names it
   */
  readonly source: string
}

const none: Membership = { environment: '', application: '', source: '' }

const groups = ['environment', 'application', 'source'] as const

/** Groups of objects: by their own labels, else by their parents'. */
export class Memberships {
  readonly #byUid = new Map<string, Membership>()
  readonly #applications: Applications

  constructor(applications: Applications) {
    this.#applications = applications
  }

  get size(): number {
    return this.#byUid.size
  }

  of(uid: string): Membership {
    return this.#byUid.get(uid) ?? none
  }

  /**
   * @param record - undefined: the object is no longer seen
   * @returns true if its groups have changed
   */
  place(uid: string, record: ObjectRecord | undefined, above: Above): boolean {
    const before = this.#byUid.get(uid)
    const now = record && this.#by(record, above)
    if (before && now && groups.every((group) => before[group] === now[group])) return false
    if (!before && !now) return false
    if (now) this.#byUid.set(uid, now)
    else this.#byUid.delete(uid)
    return true
  }

  #by(record: ObjectRecord, above: Above): Membership {
    const { environment } = record
    const application = this.#applications.of(record)
    const source = record.labels.get(inventoryLabel) ?? ''
    const inherited = above?.is === 'object' ? this.of(above.record.uid) : none
    if (!environment && !application && !source) return inherited
    return {
      environment: environment || inherited.environment,
      application: application || inherited.application,
      source: source || inherited.source,
    }
  }
}
