import { keyName, keyText } from '../../../../kubernetes/key.ts'
import type { Clock } from '../../../../lib/clock.ts'
import { shownField } from '../manifests/secrets.ts'
import type { FieldConflict, RoundEnd } from '../round.ts'

/** Limit of fields kept for one source; the fields that changed last stay. */
const maxRemembered = 200
/** Limit of fields counted for one object in a round. */
const maxFieldsOfObject = 20
/** Time without a change by others until a field is forgotten. ms */
const forgetAfterMs = 24 * 60 * 60 * 1000
/** A single change may be by hand. */
const minTimes = 2
/** Limit of writers in notes. */
const maxNamed = 5
/** Limit of fields in the note about a writer. */
const maxFieldsNamed = 3
/** Limit of a field's path in a note; a longer one is cut. */
const maxFieldLength = 100

interface Taken {
  /** `keyText` */
  readonly object: string
  readonly name: string
  /** of the manifest with the field */
  readonly digest: string
  readonly manager: string
  /** empty: the whole object */
  readonly field: string
  readonly times: number
  readonly firstAt: number
  readonly lastAt: number
}

/** Counts the fields of one source's objects that others write although Git has them. Notes name repeated writers. */
export class SecondWriters {
  readonly #clock: Pick<Clock, 'now'>
  /** by object, manager and field, in the order of their last change */
  readonly #taken = new Map<string, Taken>()

  constructor(clock: Pick<Clock, 'now'>) {
    this.#clock = clock
  }

  /** Counts the changes of a round. @returns notes for users */
  observe(ends: readonly RoundEnd[]): string[] {
    const now = this.#clock.now()
    const wanted = new Set(ends.map(({ manifest }) => keyText(manifest.key)))
    for (const [id, { object, lastAt }] of this.#taken) {
      if (!wanted.has(object) || now - lastAt > forgetAfterMs) this.#taken.delete(id)
    }
    for (const end of ends) this.#observeOne(end, now)
    for (const id of this.#taken.keys()) if (this.#taken.size > maxRemembered) this.#taken.delete(id)
    return this.#notes()
  }

  #observeOne({ manifest, end }: RoundEnd, now: number): void {
    if (end.kind !== 'applied') return
    const object = keyText(manifest.key)
    const conflicts = (end.overwritten ?? []).slice(0, maxFieldsOfObject)
    const shown = conflicts.map((one) => ({ ...one, field: shownField(manifest.key, one.field) }))
    const ids = new Map(shown.map((conflict) => [idOf(object, conflict), conflict]))
    for (const [id, known] of this.#taken) {
      // a new manifest without a conflict may leave the field to others
      if (known.object === object && known.digest !== manifest.digest && !ids.has(id)) this.#taken.delete(id)
    }
    for (const [id, { manager, field }] of ids) {
      const known = this.#taken.get(id)
      this.#taken.delete(id)
      const { times = 0, firstAt = now } = known ?? {}
      const about = { object, name: keyName(manifest.key), digest: manifest.digest, manager, field }
      this.#taken.set(id, { ...about, times: times + 1, firstAt, lastAt: now })
    }
  }

  #notes(): string[] {
    const writers = new Map<string, Taken[]>()
    for (const taken of [...this.#taken.values()].reverse()) {
      if (taken.times < minTimes) continue
      const id = idOf(taken.object, { manager: taken.manager, field: '' })
      writers.set(id, [...(writers.get(id) ?? []), taken])
    }
    const notes = Array.from(writers.values(), noteOf)
    const more = notes.length - maxNamed
    return more > 0 ? [...notes.slice(0, maxNamed), `and ${more} more that others write again and again`] : notes
  }
}

function idOf(object: string, { manager, field }: Pick<FieldConflict, 'manager' | 'field'>): string {
  return JSON.stringify([object, manager, field])
}

function noteOf(all: readonly Taken[]): string {
  const [first] = all as [Taken]
  const names = all.flatMap(({ field }) => (field === '' ? [] : [field.slice(0, maxFieldLength)]))
  const more = names.length - maxFieldsNamed
  const fields = names.length === 0 ? 'it' : names.slice(0, maxFieldsNamed).join(', ')
  const what = more > 0 ? `${fields} and ${more} more fields` : fields
  const times = Math.max(...all.map((one) => one.times))
  const minutes = Math.ceil((first.lastAt - Math.min(...all.map(({ firstAt }) => firstAt))) / 60_000)
  const advice = `leave that out of the manifest, or stop ${first.manager}`
  return `${first.name}: ${first.manager} writes ${what} as well, and was undone ${times} times in ${minutes} min: ${advice}`
}
