import type { AgentId, Safety } from '../../src/call/call.ts'
import type { InstanceId, Row, RowItem, RowSnapshot } from '../../src/membership/table/row.ts'
import { contentOf, isAsWritten } from './row-content.ts'
import type { Machine, VirtualTime } from './virtual-time.ts'

/** Rules that must hold in every world. */
export const rules = [
  'one writer per row',
  'equal tables after quiet',
  'no second hop',
  'no call without an answer',
  'no unsafe call delivered twice',
  'answers are those of the agent',
  'calls succeed after quiet',
  'no failure that nobody handles',
] as const
export type Rule = (typeof rules)[number]

export interface Violation {
  readonly rule: Rule
  readonly atMs: number
  readonly detail: string
}

export interface CallRecord {
  readonly id: string
  readonly agentId: AgentId
  readonly safety: Safety
  /** the machine where it entered */
  readonly machine: Machine
  readonly instance: InstanceId
  readonly expectedMessages: readonly string[]
  /** pods that got it, in order */
  readonly deliveredTo: string[]
  /** steps of the call so far */
  readonly story: string[]
  /** undefined while it runs */
  outcome: string | undefined
}

/** Records all events, and finds violations of the rules. */
export class Ledger {
  readonly calls = new Map<string, CallRecord>()
  violation: Violation | undefined
  /** time when an owner last published a new version. ms */
  lastWriteAtMs = 0
  readonly #time: VirtualTime
  /** published rows of each owner, by version */
  readonly #written = new Map<InstanceId, Map<number, RowSnapshot>>()

  constructor(time: VirtualTime) {
    this.#time = time
  }

  violated(rule: Rule, detail: string): void {
    this.violation ??= { rule, atMs: this.#time.now, detail }
  }

  // rows

  /** The owner publishes its row. */
  rowWritten(row: RowSnapshot): void {
    const { instance, version } = row
    const versions = this.#written.get(instance) ?? new Map<number, RowSnapshot>()
    this.#written.set(instance, versions)
    const known = versions.get(version)
    Object.freeze(row.head) // heads are replaced, never changed: readers may have this very object
    if (!known) {
      versions.set(version, row)
      this.lastWriteAtMs = this.#time.now
    } else if (!isAsWritten(known, readOf(row))) {
      const detail = `${instance} ${version} was written twice: ${textOf(known)} and ${textOf(row)}`
      this.violated('one writer per row', detail)
    }
  }

  /** Returns true if the owner has published this version. */
  isWritten({ instance, version }: Pick<Row, 'instance' | 'version'>): boolean {
    return this.#written.get(instance)?.has(version) ?? false
  }

  /** `reader` has the row of another instance. */
  rowSeen(reader: string, row: Row): void {
    const { instance, version } = row
    const written = this.#written.get(instance)?.get(version)
    if (written && isAsWritten(written, row)) return
    const has = `${reader} has ${instance} ${version} as ${contentOf(row)}`
    this.violated('one writer per row', `${has}, its owner ${written ? textOf(written) : 'never wrote that version'}`)
  }

  // calls

  began(call: CallRecord): void {
    this.calls.set(call.id, call)
    this.#note(call, `${call.safety} for ${call.agentId}, entered at ${call.instance}`)
  }

  handedOver(id: string, from: InstanceId, to: InstanceId): void {
    const call = this.#call(id)
    this.#note(call, `asked by ${from} of ${to}`)
    if (call.instance !== from) this.violated('no second hop', describe(call))
  }

  delivered(id: string, pod: string): void {
    const call = this.#call(id)
    call.deliveredTo.push(pod)
    this.#note(call, `delivered to ${pod}`)
    if (call.safety === 'safe' || call.deliveredTo.length === 1) return
    this.violated('no unsafe call delivered twice', describe(call))
  }

  /** @param error - undefined: it succeeded */
  answered(id: string, error: string | undefined, messages: readonly string[]): void {
    const call = this.#call(id)
    if (call.outcome !== undefined) this.violated('no call without an answer', `call ${id} has two answers`)
    call.outcome = error ?? 'OK'
    this.#note(call, `answered ${call.outcome}`)
    const expected = call.expectedMessages.slice(0, error === undefined ? undefined : messages.length)
    if (messages.join() === expected.join()) return
    this.violated('answers are those of the agent', `${describe(call)}: ${messages.join()}, not ${expected.join()}`)
  }

  /** Checks that all calls from long ago have an answer, but for those whose entry has ended. */
  checkAnswers(): void {
    for (const call of this.calls.values()) {
      if (call.outcome !== undefined || call.machine.state === 'dead') continue
      this.violated('no call without an answer', describe(call))
    }
  }

  #note({ story }: CallRecord, what: string): void {
    story.push(`${this.#time.now.toFixed(0)} ms ${what}`)
  }

  #call(id: string): CallRecord {
    const call = this.calls.get(id)
    if (!call) throw new Error(`no call ${id} was made`)
    return call
  }
}

/** Describes the steps of a call. */
export function describe({ id, story }: CallRecord): string {
  return `call ${id}: ${story.join('; ')}`
}

function textOf(row: RowSnapshot): string {
  return contentOf(readOf(row))
}

function readOf({ head, connections, registrations }: RowSnapshot) {
  return { head, connections: byId(connections), registrations: byId(registrations) }
}

function byId<Item extends RowItem>(items: readonly Item[]): ReadonlyMap<string, Item> {
  return new Map(items.map((item) => [item.id, item]))
}
