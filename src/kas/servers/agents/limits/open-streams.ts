import type { AgentId, Metadata } from '../../../../call/call.ts'
import { Counter } from '../../../../lib/counter.ts'
import { KasError, type LimitName } from '../../../../lib/errors.ts'

/** What one agent may have open at one replica, on all its connections together. */
export interface OpenStreamsOptions {
  /**
   * Connect streams, idle or not. A pod of agentk opens 500 at the most: this is three such pods, and pods have homes at
   * different replicas. Each costs about 13 KB
   */
  readonly maxTunnels: number
  /** streams of all other methods. A pod keeps two open: this is a hundred pods, and their short calls */
  readonly maxCalls: number
  /** a hundred pods, and those that move. One costs 250 KB while it sends all that it may */
  readonly maxConnections: number
  /** of the heads of all these; an agent sends about half a KiB with each */
  readonly maxHeadBytes: number
}

export const defaultOpenStreams: OpenStreamsOptions = {
  maxTunnels: 1500,
  maxCalls: 500,
  maxConnections: 120,
  maxHeadBytes: 8 * 1024 * 1024,
}

type OpenKind = 'tunnels' | 'calls' | 'connections'

const nameOf = { tunnels: 'tunnels_of_agent', calls: 'calls_of_agent', connections: 'connections_of_agent' } as const

/** Of a method one stream of which costs more than others. */
export interface MethodBound {
  /** its last word, for the refusal */
  readonly name: string
  /** streams of one agent */
  readonly limit: number
}

interface OpenOfAgent {
  tunnels: number
  calls: number
  connections: number
  headBytes: number
  /** of methods with a bound of their own, by their names */
  readonly methods: Counter<string>
}

/** what an entry of a head costs beside its texts. Bytes */
const entryBytes = 32

/** Counts the streams of each agent: those beyond its limit are refused, those that it has go on. */
export class OpenStreams {
  readonly #options: OpenStreamsOptions
  readonly #agents = new Map<AgentId, OpenOfAgent>()

  constructor(options: OpenStreamsOptions = defaultOpenStreams) {
    this.#options = options
  }

  /**
   * Until `leave`.
   *
   * @param kind - `tunnels`: a Connect; `calls`: any other stream
   * @param headBytes - of a stream
   * @param method - absent: it has no bound of its own
   * @throws KasError TOO_MANY_STREAMS
   */
  enter(agentId: AgentId, kind: OpenKind, headBytes = 0, method?: MethodBound): void {
    const { maxTunnels, maxCalls, maxConnections, maxHeadBytes } = this.#options
    const open = this.#agents.get(agentId) ?? none()
    const limit = { tunnels: maxTunnels, calls: maxCalls, connections: maxConnections }[kind]
    if (open[kind] >= limit) throw tooMany(nameOf[kind], limit, kind)
    if (method && open.methods.of(method.name) >= method.limit) {
      throw tooMany('method_calls_of_agent', method.limit, `${method.name} calls`)
    }
    if (open.headBytes + headBytes > maxHeadBytes)
      throw tooMany('head_bytes_of_agent', maxHeadBytes, 'bytes of headers')
    this.#agents.set(agentId, open)
    open[kind]++
    open.headBytes += headBytes
    if (method) open.methods.add(method.name)
  }

  /** To be called once at the end of what was entered, as it was. */
  leave(agentId: AgentId, kind: OpenKind, headBytes = 0, method?: MethodBound): void {
    const open = this.#agents.get(agentId)
    if (!open) return
    open[kind]--
    open.headBytes -= headBytes
    if (method) open.methods.add(method.name, -1)
    if (open.tunnels + open.calls + open.connections === 0) this.#agents.delete(agentId)
  }
}

/** About what a stream keeps of its head. */
export function headBytes(metadata: Metadata): number {
  let bytes = 0
  for (const key in metadata) {
    for (const value of metadata[key] as readonly string[]) bytes += key.length + value.length + entryBytes
  }
  return bytes
}

function none(): OpenOfAgent {
  return { tunnels: 0, calls: 0, connections: 0, headBytes: 0, methods: new Counter() }
}

function tooMany(name: LimitName, limit: number, what: string): KasError {
  return new KasError({ code: 'TOO_MANY_STREAMS', name, limit, what: `${what} of this agent at this replica` })
}
