import type { AgentId } from '../../../call/call.ts'
import type { Clock } from '../../../lib/clock.ts'

/** An agent's last report of one source, to this or another replica. */
export interface KeptState {
  /** `kas.agent.v1.SourceState`, as the agent encoded it */
  readonly bytes: Uint8Array
  /** when it came, by this replica's clock */
  readonly at: number
  /** the stream that reported it is open */
  readonly live: boolean
}

interface Kept extends KeptState {
  readonly stream: object
  readonly isRemoved: boolean
  live: boolean
  /** when its stream ended, by the clock */
  endedAt: number
}

/** One state as it came, with a shorter form for when there is little room. */
export interface ReportedState {
  readonly whole: Uint8Array
  cut(): Uint8Array
  /** the source was removed: states of it at other replicas are void */
  readonly isRemoved?: boolean
}

/** A stream of an agent, until `end`. */
export interface ReportedStates {
  /** @returns false: the agent reports too much */
  put(source: string, state: ReportedState): boolean
  end(): void
}

interface OfAgent {
  /** least recently reported first */
  readonly sources: Map<string, Kept>
  /** streams that are open */
  readonly streams: Set<object>
  bytes: number
  /** a source of an open stream was dropped to make room */
  isCut: boolean
  cancelEnd: () => void
}

export interface StatesOptions {
  /** bytes of all agents at this replica; the agent without a report for the longest time makes room */
  readonly maxBytes?: number
  /** sources of one agent; the source without a report for the longest time makes room */
  readonly maxSources?: number
  /** bytes of one agent: beyond half of it states are cut, beyond all of it they are refused */
  readonly maxAgentBytes?: number
  /** after the agent's last stream has ended, in ms */
  readonly keepMs?: number
}

const defaults = { maxBytes: 64 * 1024 * 1024, maxSources: 300, maxAgentBytes: 1024 * 1024, keepMs: 3_600_000 }

/** bytes of a source beside its state: its place in the maps */
const overheadBytes = 256

/** The states of agents' sources at this replica. They stay for an hour after the agent has left it. */
export class States {
  readonly #clock: Clock
  readonly #options: Required<StatesOptions>
  /** least recently reported first */
  readonly #agents = new Map<AgentId, OfAgent>()
  #bytes = 0

  constructor(clock: Clock, options: StatesOptions = {}) {
    this.#clock = clock
    this.#options = { ...defaults, ...options }
  }

  get bytes(): number {
    return this.#bytes
  }

  get agents(): number {
    return this.#agents.size
  }

  /** Begins a stream of the agent, until `end`. Its report of a source replaces that of another stream. */
  open(agentId: AgentId): ReportedStates {
    const stream = {}
    const own = this.#agents.get(agentId) ?? this.#begin(agentId)
    own.cancelEnd()
    own.streams.add(stream)
    return {
      put: (source, state) => this.#put(agentId, stream, source, state),
      end: () => this.#end(agentId, stream),
    }
  }

  of(agentId: AgentId): ReadonlyMap<string, KeptState> {
    const own = this.#agents.get(agentId)
    if (!own) return new Map()
    this.#expire(own)
    return own.sources
  }

  /** True if the agent has more sources than are kept. */
  isCut(agentId: AgentId): boolean {
    return this.#agents.get(agentId)?.isCut ?? false
  }

  stop(): void {
    for (const agentId of [...this.#agents.keys()]) this.#forget(agentId)
  }

  #begin(agentId: AgentId): OfAgent {
    const own: OfAgent = { sources: new Map(), streams: new Set(), bytes: 0, isCut: false, cancelEnd: () => undefined }
    this.#agents.set(agentId, own)
    return own
  }

  /** @returns false: the agent reports too much */
  #put(agentId: AgentId, stream: object, source: string, { whole, cut, isRemoved = false }: ReportedState): boolean {
    const own = this.#agents.get(agentId) ?? this.#begin(agentId) // it may have been dropped
    own.streams.add(stream)
    const { maxSources, maxAgentBytes } = this.#options
    const before = own.sources.get(source)
    if (!before && own.sources.size >= maxSources) {
      if (isRemoved) return true
      this.#dropOldest(own)
    }
    const grownBy = (bytes: Uint8Array) => sizeOf(source, bytes) - (before ? sizeOf(source, before.bytes) : 0)
    const bytes = own.bytes + grownBy(whole) <= maxAgentBytes / 2 ? whole : cut()
    const grown = grownBy(bytes)
    if (own.bytes + grown > maxAgentBytes) return false
    own.sources.delete(source) // to the end
    own.sources.set(source, { bytes, at: this.#clock.now(), live: true, stream, isRemoved, endedAt: 0 })
    own.bytes += grown
    this.#bytes += grown
    this.#agents.delete(agentId) // to the end
    this.#agents.set(agentId, own)
    for (const oldest of this.#agents.keys()) {
      if (this.#bytes <= this.#options.maxBytes || oldest === agentId) break
      this.#forget(oldest)
    }
    return true
  }

  /** Drops states of ended streams after `keepMs`. */
  #expire(own: OfAgent): void {
    const before = this.#clock.now() - this.#options.keepMs
    for (const [source, { live, endedAt }] of own.sources) {
      if (!live && endedAt <= before) this.#drop(own, source)
    }
  }

  /**
   * Drops the oldest source: removed ones first, then those of ended streams, which the configuration may no longer
   * have.
   */
  #dropOldest(own: OfAgent): void {
    const all = [...own.sources]
    const oldest = all.find(([, { isRemoved }]) => isRemoved) ?? all.find(([, { live }]) => !live) ?? all[0]
    if (!oldest) return
    own.isCut ||= oldest[1].live && !oldest[1].isRemoved
    this.#drop(own, oldest[0])
  }

  #drop(own: OfAgent, source: string): void {
    const kept = own.sources.get(source)
    if (!kept) return
    const { bytes } = kept
    own.sources.delete(source)
    own.bytes -= sizeOf(source, bytes)
    this.#bytes -= sizeOf(source, bytes)
  }

  #end(agentId: AgentId, stream: object): void {
    const own = this.#agents.get(agentId)
    if (!own?.streams.delete(stream)) return
    for (const kept of own.sources.values()) {
      if (kept.stream !== stream) continue
      kept.live = false
      kept.endedAt = this.#clock.now()
    }
    if (own.streams.size > 0) return
    const keepMs = own.sources.size === 0 ? 0 : this.#options.keepMs
    own.cancelEnd = this.#clock.after(keepMs, () => this.#forget(agentId))
  }

  #forget(agentId: AgentId): void {
    const own = this.#agents.get(agentId)
    if (!own) return
    own.cancelEnd()
    this.#bytes -= own.bytes
    this.#agents.delete(agentId)
  }
}

function sizeOf(source: string, bytes: Uint8Array): number {
  return bytes.length + source.length * 2 + overheadBytes
}
