import type { ObjectRecord } from '../store/record.ts'
import type { Applications } from './applications.ts'
import type { Above } from './owners.ts'

/** Of which environment and application an object is; empty: of none. */
export interface Membership {
  readonly environment: string
  readonly application: string
}

const none: Membership = { environment: '', application: '' }

/** Of which groups objects are: by their own labels, else by their parents'. */
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
   * @param record - undefined: it is not seen any more
   * @returns whether it is of other groups than before
   */
  place(uid: string, record: ObjectRecord | undefined, above: Above): boolean {
    const before = this.#byUid.get(uid)
    const now = record && this.#by(record, above)
    if (before?.environment === now?.environment && before?.application === now?.application) return false
    if (now) this.#byUid.set(uid, now)
    else this.#byUid.delete(uid)
    return true
  }

  #by(record: ObjectRecord, above: Above): Membership {
    const { environment } = record
    const application = this.#applications.of(record)
    const inherited = above?.is === 'object' ? this.of(above.record.uid) : none
    if (!environment && !application) return inherited
    return { environment: environment || inherited.environment, application: application || inherited.application }
  }
}
