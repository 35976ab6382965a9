import { Counter, collectDefaultMetrics, Gauge, Registry } from 'prom-client'
import { goCodeName } from './errors.ts'
import type { Version } from './version.ts'

/**
 * Metrics with upstream's names (doc/reference/tunnel-protocol.md 8.1), one typed object for each part. doc/reference/metrics.md
 * explains their use.
 */

export type { Registry } from 'prom-client'

/** Creates a registry with the metrics of the process and of Node. */
export function createRegistry(): Registry {
  const register = new Registry()
  collectDefaultMetrics({ register })
  return register
}

/** Creates `gitlab_build_info`: always 1, its labels are the version. */
export function createBuildMetrics(register: Registry, { version, commit }: Version): void {
  const labelNames = ['version', 'built', 'commit'] as const
  const gauge = new Gauge({ name: 'gitlab_build_info', help: 'What runs: always 1', labelNames, registers: [register] })
  gauge.set({ version: `v${version}`, built: 'unknown', commit }, 1)
}

export interface AgentMetrics {
  rateExceeded(): void
}

/** @param countAgents - called at each scrape: agents with at least one connection to this replica */
export function createAgentMetrics(register: Registry, countAgents: () => number): AgentMetrics {
  new Gauge({
    name: 'connected_agents_count',
    help: 'Agents that are connected to this replica',
    registers: [register],
    collect() {
      this.set(countAgents())
    },
  })
  const rateExceeded = new Counter({
    name: 'agent_server_rate_exceeded_total',
    help: 'Calls of agents that were refused because their token made too many in a minute',
    registers: [register],
  })
  return { rateExceeded: () => rateExceeded.inc() }
}

export type GrpcType = 'unary' | 'client_stream' | 'server_stream' | 'bidi_stream'

/** Counts the calls of one method. */
export interface GrpcMethodMetrics {
  started(): void
  /** @param code - gRPC status code */
  ended(code: number, messages: { received: number; sent: number }): void
}

export interface GrpcServerMetrics {
  /**
   * @param name - `/package.Service/Method` of a served method; called once for each method, so that labels stay
   *   bounded
   */
  method(name: string, type: GrpcType): GrpcMethodMetrics
}

const methodLabels = ['grpc_type', 'grpc_service', 'grpc_method']

interface MethodCounts {
  readonly service: { readonly grpc_service: string; readonly grpc_method: string }
  readonly type: GrpcType
  started: number
  inFlight: number
  received: number
  sent: number
  readonly handled: Map<number, number>
}

/**
 * Creates metrics with the names of go-grpc-middleware, which dashboards for kas use. They are plain numbers that are
 * read at each scrape, because each tunnel is a call. Messages are counted at the end of their call.
 */
export function createGrpcServerMetrics(register: Registry): GrpcServerMetrics {
  const methods: MethodCounts[] = []
  const registers = [register]
  const counter = (name: string, help: string, count: (method: MethodCounts) => number) =>
    new Counter({
      name,
      help,
      labelNames: methodLabels,
      registers,
      collect() {
        this.reset()
        for (const method of methods) this.inc({ ...method.service, grpc_type: method.type }, count(method))
      },
    })
  counter('grpc_server_started_total', 'Calls that began', ({ started }) => started)
  counter('grpc_server_msg_received_total', 'Messages that came, of calls that ended', ({ received }) => received)
  counter('grpc_server_msg_sent_total', 'Messages that were sent, of calls that ended', ({ sent }) => sent)
  createHandledCounter(registers, methods)
  createInFlightGauge(registers, methods)
  return { method: (name, type) => addMethod(methods, name, type) }
}

function createHandledCounter(registers: Registry[], methods: readonly MethodCounts[]): void {
  new Counter({
    name: 'grpc_server_handled_total',
    help: 'Calls that ended, by status',
    labelNames: [...methodLabels, 'grpc_code'],
    registers,
    collect() {
      this.reset()
      for (const { service, type, handled } of methods) {
        for (const [code, count] of handled)
          this.inc({ ...service, grpc_type: type, grpc_code: goCodeName(code) ?? 'Unknown' }, count)
      }
    },
  })
}

function createInFlightGauge(registers: Registry[], methods: readonly MethodCounts[]): void {
  new Gauge({
    name: 'grpc_server_requests_in_flight',
    help: 'Calls that run',
    labelNames: ['grpc_service', 'grpc_method'],
    registers,
    collect() {
      for (const { service, inFlight } of methods) this.set(service, inFlight)
    },
  })
}

function addMethod(methods: MethodCounts[], name: string, type: GrpcType): GrpcMethodMetrics {
  const [, grpc_service = '', grpc_method = ''] = name.split('/')
  const counts: MethodCounts = {
    service: { grpc_service, grpc_method },
    type,
    started: 0,
    inFlight: 0,
    received: 0,
    sent: 0,
    handled: new Map(),
  }
  methods.push(counts)
  return {
    started() {
      counts.started++
      counts.inFlight++
    },
    ended(code, { received, sent }) {
      counts.inFlight--
      counts.received += received
      counts.sent += sent
      counts.handled.set(code, (counts.handled.get(code) ?? 0) + 1)
    },
  }
}
