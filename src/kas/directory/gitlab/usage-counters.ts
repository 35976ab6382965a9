import { Counter } from '../../../lib/counter.ts'
import type { Usage } from '../usage.ts'

export interface UsageCountersOptions {
  /**
   * bound of one counter in one report: GitLab counts in steps of one (doc/reference/gitlab-contract.md 10.3 no. 22)
   */
  readonly maxIncrement?: number
  /** ids of one unique counter, or events of one name, in one report */
  readonly maxListed?: number
  /** ids of one unique counter, or events of one name, that are kept; more are dropped and counted */
  readonly maxKept?: number
  /** characters of all kept events, as JSON; more are dropped and counted */
  readonly maxEventCharacters?: number
  /** different registrations of one agent, whose pods may have several versions; more are dropped */
  readonly maxRegistrationsOfAgent?: number
}

const defaults = {
  maxIncrement: 10_000,
  maxListed: 5000,
  maxKept: 100_000,
  maxEventCharacters: 16 << 20,
  maxRegistrationsOfAgent: 10,
}

/** Usage of one call to GitLab, with the step that removes it once GitLab has it. */
export interface UsagePart {
  readonly body: Readonly<Record<string, unknown>>
  taken(): void
}

/** Counts usage until it is reported to GitLab. */
export class UsageCounters implements Usage {
  readonly #options: Required<UsageCountersOptions>
  readonly #counters = new Counter<string>()
  readonly #unique = new Map<string, Set<bigint>>()
  /** events by name, as JSON: equal events count once */
  readonly #events = new Map<string, Set<string>>()
  #eventCharacters = 0
  /** kept registrations, by agent */
  readonly #registrations = new Counter<bigint>()
  #dropped = 0

  constructor(options: UsageCountersOptions = {}) {
    this.#options = { ...defaults, ...options }
  }

  counter(name: string): () => void {
    return () => void this.#counters.add(name)
  }

  unique(name: string): (id: bigint) => void {
    return (id) => void this.#keep(this.#unique, name, id)
  }

  event<E extends object>(name: string): (event: E) => void {
    return (event) => this.#event(name, event)
  }

  #event(name: string, event: object): void {
    const json = toJson(event)
    if (this.#events.get(name)?.has(json)) return
    const { agent_id: agent } = event as { readonly agent_id?: bigint }
    const { maxEventCharacters, maxRegistrationsOfAgent } = this.#options
    const registrations = agent === undefined ? 0 : this.#registrations.of(agent)
    if (registrations >= maxRegistrationsOfAgent || this.#eventCharacters + json.length > maxEventCharacters) {
      this.#dropped += 1
      return
    }
    if (!this.#keep(this.#events, name, json)) return
    this.#eventCharacters += json.length
    if (agent !== undefined) this.#registrations.add(agent)
  }

  /** Returns the next part to report to `usage_metrics`; undefined: nothing is left. */
  metrics(): UsagePart | undefined {
    const { maxIncrement, maxListed } = this.#options
    const counters = [...this.#counters.counts].map(([name, count]) => [name, Math.min(count, maxIncrement)] as const)
    const unique = firstOf(this.#unique, maxListed)
    if (counters.length + unique.length === 0) return undefined
    const ids = unique.map(([name, some]) => [name, some.map(Number)] as const)
    const body = {
      ...(counters.length > 0 ? { counters: Object.fromEntries(counters) } : {}),
      ...(ids.length > 0 ? { unique_counters: Object.fromEntries(ids) } : {}),
    }
    const taken = () => {
      for (const [name, count] of counters) this.#counters.add(name, -count)
      takeOff(this.#unique, unique)
    }
    return { body, taken }
  }

  /** Returns the next part to report to `agent_events`; undefined: nothing is left. */
  events(): UsagePart | undefined {
    const events = firstOf(this.#events, this.#options.maxListed)
    if (events.length === 0) return undefined
    const lists = events.map(([name, some]) => [name, some.map((json) => JSON.parse(json) as unknown)] as const)
    const taken = () => {
      takeOff(this.#events, events)
      for (const [, list] of lists) for (const event of list) this.#forgetRegistration(event)
      for (const [, some] of events) for (const json of some) this.#eventCharacters -= json.length
    }
    return { body: { events: Object.fromEntries(lists) }, taken }
  }

  /** Returns the number of dropped ids and events since the last call. */
  takeDropped(): number {
    const dropped = this.#dropped
    this.#dropped = 0
    return dropped
  }

  /** @returns true if the value is kept now */
  #keep<Value>(map: Map<string, Set<Value>>, name: string, value: Value): boolean {
    const set = map.get(name) ?? new Set()
    map.set(name, set)
    if (set.has(value)) return true
    if (set.size < this.#options.maxKept) set.add(value)
    else this.#dropped += 1
    return set.has(value)
  }

  #forgetRegistration(event: unknown): void {
    const { agent_id: id } = event as { agent_id?: number }
    if (id !== undefined) this.#registrations.add(BigInt(id), -1)
  }
}

function firstOf<Name, Value>(map: ReadonlyMap<Name, ReadonlySet<Value>>, max: number): [Name, Value[]][] {
  return [...map].map(([name, set]) => [name, [...set.values().take(max)]])
}

function takeOff<Name, Value>(map: Map<Name, Set<Value>>, sent: readonly (readonly [Name, readonly Value[]])[]): void {
  for (const [name, values] of sent) {
    const set = map.get(name)
    for (const value of values) set?.delete(value)
    if (set?.size === 0) map.delete(name)
  }
}

/** Converts an event to JSON. GitLab's ids fit a double. */
function toJson(event: object): string {
  return JSON.stringify(event, (_, value: unknown) => (typeof value === 'bigint' ? Number(value) : value))
}
