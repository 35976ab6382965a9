import type { ConnectionEntry, InstanceId, Row, RowSnapshot } from '../../src/membership/row.ts'
import type { AgentId, Safety } from '../../src/proto/call.ts'
import type { Machine, VirtualTime } from './virtual-time.ts'

/** What must hold, whatever happens. */
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
  /** where it entered */
  readonly machine: Machine
  readonly instance: InstanceId
  readonly expectedMessages: readonly string[]
  /** pods that got it, in order */
  readonly deliveredTo: string[]
  /** what it went through */
  readonly story: string[]
  /** undefined while it runs */
  outcome: string | undefined
}

/** Writes down what happens and finds what must not. */
export class Ledger {
  readonly calls = new Map<string, CallRecord>()
  violation: Violation | undefined
  readonly #time: VirtualTime
  /** by instance and version: what the owner said */
  readonly #written = new Map<string, string>()

  constructor(time: VirtualTime) {
    this.#time = time
  }

  violated(rule: Rule, detail: string): void {
    this.violation ??= { rule, atMs: this.#time.now, detail }
  }

  // rows

  /** The owner lets its row out. */
  rowWritten(row: RowSnapshot): void {
    const key = `${row.instance} ${row.version}`
    const content = contentOf(row.head, row.connections)
    const known = this.#written.get(key)
    if (known === undefined) this.#written.set(key, content)
    else if (known !== content) this.violated('one writer per row', `${key} was written twice: ${known} and ${content}`)
  }

  /** `reader` has the row of another instance. */
  rowSeen(reader: string, row: Row): void {
    const key = `${row.instance} ${row.version}`
    const content = contentOf(row.head, row.connections.values())
    const written = this.#written.get(key)
    if (written === content) return
    const detail = `${reader} has ${key} as ${content}, its owner ${written ?? 'never told that version'}`
    this.violated('one writer per row', detail)
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

  /** @param error - undefined: it went well */
  answered(id: string, error: string | undefined, messages: readonly string[]): void {
    const call = this.#call(id)
    if (call.outcome !== undefined) this.violated('no call without an answer', `call ${id} has two answers`)
    call.outcome = error ?? 'OK'
    this.#note(call, `answered ${call.outcome}`)
    const expected = call.expectedMessages.slice(0, error === undefined ? undefined : messages.length)
    if (messages.join() === expected.join()) return
    this.violated('answers are those of the agent', `${describe(call)}: ${messages.join()}, not ${expected.join()}`)
  }

  /** All that was called long ago must have an answer, but for those whose entry is gone. */
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

/** What a call went through. */
export function describe({ id, story }: CallRecord): string {
  return `call ${id}: ${story.join('; ')}`
}

/** All of a row that others may see, as text. */
export function contentOf(head: Row['head'], connections: Iterable<ConnectionEntry>): string {
  const { name, state, replicaPort, gossipPort, publicKeyHash } = head
  return `${name} ${state} ${replicaPort} ${gossipPort} ${publicKeyHash} ${Array.from(connections, textOf).sort().join(' ')}`
}

/** entries never change */
const texts = new WeakMap<ConnectionEntry, string>()

function textOf(entry: ConnectionEntry): string {
  const known = texts.get(entry)
  if (known !== undefined) return known
  const { id, agentId, pod, role, methods } = entry
  const text = `${id}=${agentId}/${pod}/${role}/${methods.join('+')}`
  texts.set(entry, text)
  return text
}
