import type { AgentEvents, CounterName, EventName, UniqueCounterName, Usage } from '../usage.ts'

export interface UsageCountersOptions {
  /** of one counter in one report: GitLab counts each one by one (gitlab-contract 10.3 no. 22) */
  readonly maxIncrement?: number
  /** ids of one unique counter, and events of one name, in one report */
  readonly maxListed?: number
  /** the same, kept at once; what is over is dropped and counted */
  readonly maxKept?: number
}

const defaults = { maxIncrement: 10_000, maxListed: 5000, maxKept: 100_000 }

/** What one call tells GitLab, and the step that takes it off once GitLab has it. */
export interface UsagePart {
  readonly body: Readonly<Record<string, unknown>>
  taken(): void
}

/** Counts what happens until GitLab has been told. */
export class UsageCounters implements Usage {
  readonly #options: Required<UsageCountersOptions>
  readonly #counters = new Map<CounterName, number>()
  readonly #unique = new Map<UniqueCounterName, Set<bigint>>()
  /** by name, as JSON: the same event is one */
  readonly #events = new Map<EventName, Set<string>>()
  #dropped = 0

  constructor(options: UsageCountersOptions = {}) {
    this.#options = { ...defaults, ...options }
  }

  count(name: CounterName): void {
    this.#counters.set(name, (this.#counters.get(name) ?? 0) + 1)
  }

  countUnique(name: UniqueCounterName, id: bigint): void {
    this.#keep(this.#unique, name, id)
  }

  event<Name extends EventName>(name: Name, event: AgentEvents[Name]): void {
    this.#keep(this.#events, name, toJson(event))
  }

  /** The next part of what `usage_metrics` should be told; undefined: nothing. */
  metrics(): UsagePart | undefined {
    const { maxIncrement, maxListed } = this.#options
    const counters = [...this.#counters].map(([name, count]) => [name, Math.min(count, maxIncrement)] as const)
    const unique = firstOf(this.#unique, maxListed)
    if (counters.length + unique.length === 0) return undefined
    const ids = unique.map(([name, some]) => [name, some.map(Number)] as const)
    const body = {
      ...(counters.length > 0 ? { counters: Object.fromEntries(counters) } : {}),
      ...(ids.length > 0 ? { unique_counters: Object.fromEntries(ids) } : {}),
    }
    const taken = () => {
      for (const [name, count] of counters) this.#subtract(name, count)
      takeOff(this.#unique, unique)
    }
    return { body, taken }
  }

  /** The next part of what `agent_events` should be told; undefined: nothing. */
  events(): UsagePart | undefined {
    const events = firstOf(this.#events, this.#options.maxListed)
    if (events.length === 0) return undefined
    const lists = events.map(([name, some]) => [name, some.map((json) => JSON.parse(json) as unknown)] as const)
    return { body: { events: Object.fromEntries(lists) }, taken: () => takeOff(this.#events, events) }
  }

  /** Ids and events that found no room since the last question. */
  takeDropped(): number {
    const dropped = this.#dropped
    this.#dropped = 0
    return dropped
  }

  #keep<Name, Value>(map: Map<Name, Set<Value>>, name: Name, value: Value): void {
    const set = map.get(name) ?? new Set()
    map.set(name, set)
    if (set.size < this.#options.maxKept) set.add(value)
    else if (!set.has(value)) this.#dropped += 1
  }

  #subtract(name: CounterName, count: number): void {
    const left = (this.#counters.get(name) ?? 0) - count
    if (left > 0) this.#counters.set(name, left)
    else this.#counters.delete(name)
  }
}

function firstOf<Name, Value>(map: ReadonlyMap<Name, ReadonlySet<Value>>, max: number): [Name, Value[]][] {
  return [...map].map(([name, set]) => [name, [...set.values().take(max)]])
}

function takeOff<Name, Value>(map: Map<Name, Set<Value>>, told: readonly (readonly [Name, readonly Value[]])[]): void {
  for (const [name, values] of told) {
    const set = map.get(name)
    for (const value of values) set?.delete(value)
    if (set?.size === 0) map.delete(name)
  }
}

/** GitLab's ids fit a double. */
function toJson(event: object): string {
  return JSON.stringify(event, (_, value: unknown) => (typeof value === 'bigint' ? Number(value) : value))
}
