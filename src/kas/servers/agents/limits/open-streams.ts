import type { AgentId, Metadata } from '../../../../call/call.ts'
import { Counter } from '../../../../lib/counter.ts'
import { KasError, type LimitName } from '../../../../lib/errors.ts'

/** Bounds of one agent at one replica, over all its connections. */
export interface OpenStreamsOptions {
  /**
   * Connect streams, idle or not (`tunnels_of_agent`). A pod of agentk opens at most 500: this is three such pods, and
   * pods have homes at different replicas. Each stream costs about 13 KB.
   */
  readonly maxTunnels: number
  /**
   * streams of all other methods (`calls_of_agent`). A pod keeps two open: this is a hundred pods, and their short
   * calls
   */
  readonly maxCalls: number
  /**
   * connections (`connections_of_agent`): those of a hundred pods, and some that move. A connection costs 250 KB while
   * it sends as much as it may.
   */
  readonly maxConnections: number
  /** bytes of the heads of all streams (`head_bytes_of_agent`); an agent sends about half a KiB with each */
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

/** Bound for a method whose streams cost more than others. */
export interface MethodBound {
  /** last part of the method's name, for the refusal */
  readonly name: string
  /** most streams of one agent */
  readonly limit: number
}

interface OpenOfAgent {
  tunnels: number
  calls: number
  connections: number
  headBytes: number
  /** streams by method, for methods with a bound of their own */
  readonly methods: Counter<string>
}

/** Memory of an entry of a head beside its texts. bytes */
const entryBytes = 32

/** Counts the streams of each agent: new ones beyond a bound are refused, open ones go on. */
export class OpenStreams {
  readonly #options: OpenStreamsOptions
  readonly #agents = new Map<AgentId, OpenOfAgent>()

  constructor(options: OpenStreamsOptions = defaultOpenStreams) {
    this.#options = options
  }

  /**
   * Counts a stream or connection until `leave`.
   *
   * @param kind - `tunnels`: a Connect; `calls`: any other stream
   * @param headBytes - bytes of the stream's head
   * @param method - absent: the method has no bound of its own
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

  /** Ends what `enter` counted; must be called once, with the same arguments. */
  leave(agentId: AgentId, kind: OpenKind, headBytes = 0, method?: MethodBound): void {
    const open = this.#agents.get(agentId)
    if (!open) return
    open[kind]--
    open.headBytes -= headBytes
    if (method) open.methods.add(method.name, -1)
    if (open.tunnels + open.calls + open.connections === 0) this.#agents.delete(agentId)
  }
}

/** Approximate memory that a stream keeps of its head. */
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
