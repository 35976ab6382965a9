import type { AgentId } from '../../../call/call.ts'
import type { Clock } from '../../../lib/clock.ts'

/** What an agent has reported of one source, here or at another replica. */
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

/** One state as it came, and as it is kept where there is little room. */
export interface ReportedState {
  readonly whole: Uint8Array
  cut(): Uint8Array
  /** the source is gone: what other replicas have of it is void */
  readonly isRemoved?: boolean
}

/** A stream of an agent's, until `end`. */
export interface ReportedStates {
  /** @returns false: the agent reports too much */
  put(source: string, state: ReportedState): boolean
  end(): void
}

interface OfAgent {
  /** what was reported last is the last */
  readonly sources: Map<string, Kept>
  /** streams that are open */
  readonly streams: Set<object>
  bytes: number
  /** one that is there has made room */
  isCut: boolean
  cancelEnd: () => void
}

export interface StatesOptions {
  /** of all agents at this replica; who has not reported for the longest time makes room */
  readonly maxBytes?: number
  /** of one agent; what it has not reported for the longest time makes room */
  readonly maxSources?: number
  /** of one agent; half of it is for whole states, what is over is cut, then refused */
  readonly maxAgentBytes?: number
  /** after the agent's last stream has ended, in ms */
  readonly keepMs?: number
}

const defaults = { maxBytes: 64 * 1024 * 1024, maxSources: 300, maxAgentBytes: 1024 * 1024, keepMs: 3_600_000 }

/** of a source, beside its state: its place in the maps */
const overheadBytes = 256

/** The states of agents' sources that this replica has, until an hour after the agent has left it. */
export class States {
  readonly #clock: Clock
  readonly #options: Required<StatesOptions>
  /** who reported last is the last */
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

  /** A stream of the agent's, until `end`. What it reports of a source takes the place of what another one did. */
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

  /** The agent has more sources than are kept. */
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
    const own = this.#agents.get(agentId) ?? this.#begin(agentId) // it may have made room
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

  /** What no open stream has reported for so long goes, as all of an agent that has left. */
  #expire(own: OfAgent): void {
    const before = this.#clock.now() - this.#options.keepMs
    for (const [source, { live, endedAt }] of own.sources) {
      if (!live && endedAt <= before) this.#drop(own, source)
    }
  }

  /** Of those that no open stream has reported, if there is one, or that are removed: the configuration may have it no longer. */
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
