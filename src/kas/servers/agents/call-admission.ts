import type { Metadata } from '../../../call/call.ts'
import { traceAdmitted } from '../../../call/rpc-span.ts'
import type { Clock } from '../../../lib/clock.ts'
import { Counter } from '../../../lib/counter.ts'
import { KasError, limitField } from '../../../lib/errors.ts'
import type { Logger } from '../../../lib/log.ts'
import type { Tracer } from '../../../lib/tracing/tracer.ts'
import type { Handler, ServerStream } from '../../../proto/grpc/server-stream.ts'
import { connectMethod } from '../../../proto/reverse-tunnel.ts'
import { type AccessLog, userAgentField } from '../../access-log/access-log.ts'
import type { Agent } from '../../agent.ts'
import type { AgentMethod } from '../../agent-method.ts'
import type { Directory } from '../../directory/directory.ts'
import type { Gitlab } from '../../directory/gitlab.ts'
import type { Tenants } from '../../memory/tenants.ts'
import type { UnreadByAgent } from '../../memory/unread-by-agent.ts'
import type { AgentConnection } from '../../tunnels/agent-connection.ts'
import { type ConnectComponents, serveConnect } from '../../tunnels/connect.ts'
import type { ClientAddresses, Origin } from '../addresses/client-addresses.ts'
import type { Arrivals } from '../arrivals.ts'
import { type Authenticator, bearerToken } from './authenticator.ts'
import { type AgentRate, AgentRates, type OverRate } from './limits/agent-rates.ts'
import { headBytes, type MethodBound, type OpenStreams } from './limits/open-streams.ts'
import { type RefusalReason, refusalReason } from './refusals.ts'
import { ServedCall } from './served-call.ts'

export interface CallAdmissionComponents {
  readonly directory: Pick<Directory, 'agentByToken' | 'onChange'>
  /** undefined: tokens need no repeated check */
  readonly gitlab: Pick<Gitlab, 'watchToken'> | undefined
  readonly authenticator: Authenticator
  readonly openStreams: OpenStreams
  /** learns the project of each agent */
  readonly tenants: Pick<Tenants, 'learn'>
  readonly unreadByAgent: UnreadByAgent
  readonly addresses: ClientAddresses
  readonly arrivals: Pick<Arrivals, 'admit'>
  readonly connect: ConnectComponents
  /** by `/package.Service/Method`, without the server's own methods */
  readonly methods: Readonly<Record<string, AgentMethod>>
  /** a monotonic clock, for rates */
  readonly clock: Clock
  /** @param method - `Service/Method` */
  readonly onOverRate: (method: string, outcome: OverRate) => void
  readonly refused: (reason: RefusalReason) => void
  /** absent: connections are not logged */
  readonly accessLog?: AccessLog
  readonly log: Logger
  readonly tracer: Tracer
}

/**
 * Bound of unauthenticated request heads on one connection (`undecided_head_bytes_of_connection`): 500 tunnels opened
 * at once have half as much.
 */
const maxUndecidedHeadBytes = 1024 * 1024

/** Connection of a call, and its client as far as known. */
export interface Source {
  readonly connection: AgentConnection
  readonly origin: Origin
}

/** A method that this server implements itself. */
export interface OwnMethod extends Pick<AgentMethod, 'type' | 'rate'> {
  serve(stream: ServerStream, source: Source): Promise<void>
}

/**
 * Opening a tunnel costs a call, unless it replaces a used-up one; its messages are charged to the calls on it. The
 * burst is three times the tunnels of an agent, which may all come back after a replica has died.
 */
export const connect: Omit<OwnMethod, 'serve'> = {
  type: 'bidi_stream',
  rate: { perSecond: 700, burst: 4500, cost: { call: 1, message: 0, kib: 0 } },
}

/** Counters that a stream has entered. */
interface Entered {
  readonly kind: 'tunnels' | 'calls'
  /** bytes of its head */
  readonly bytes: number
  readonly method: MethodBound | undefined
}

/** Rules for admitting a call. */
interface Admitting extends Pick<Entered, 'kind' | 'method'> {
  readonly patient: boolean
  readonly counted: boolean
  /** absent: the call is not charged */
  readonly rate: AgentRate | undefined
}

/** Authenticates the calls of agents, each by its own token, charges them to their agent, and serves them. */
export class CallAdmission {
  readonly #components: CallAdmissionComponents
  readonly #connectComponents: ConnectComponents
  /** by `/package.Service/Method` */
  readonly #own: Readonly<Record<string, OwnMethod>> = {
    [connectMethod]: { ...connect, serve: (stream, source) => this.#connect(stream, source) },
  }
  readonly #rates: AgentRates
  readonly #undecidedHeadBytes = new Counter<AgentConnection>({ maxOfKey: maxUndecidedHeadBytes })
  /** connections that are counted for an agent: the first one that was admitted on them */
  readonly #known = new WeakSet<ServerStream['session']>()

  constructor(components: CallAdmissionComponents) {
    this.#components = components
    const { clock, log, onOverRate: onOver } = components
    this.#rates = new AgentRates({ clock, log, onOver }, { ...components.methods, ...this.#own })
    this.#connectComponents = {
      ...components.connect,
      onFailed: (stream, error) => {
        // else the end of the tunnel's call caused the error
        if (refusalReason(KasError.from(error).code)) this.#countRefusal(stream, error)
      },
    }
  }

  /** @returns undefined: the method is not served */
  handlerFor(method: string, source: Source): Handler | undefined {
    const own = Object.hasOwn(this.#own, method) ? this.#own[method] : undefined
    if (own) return (stream) => own.serve(stream, source)
    const { methods, directory, tracer, refused } = this.#components
    const served = Object.hasOwn(methods, method) ? methods[method] : undefined
    if (!served) {
      refused('unknown_method')
      return undefined
    }
    const { patient, maxPerAgent: limit } = served
    const bound = limit === undefined ? undefined : { name: method.slice(method.lastIndexOf('/') + 1), limit }
    const rate = this.#rates.of(method)
    const how = { patient, counted: true, kind: 'calls', method: bound, rate } as const
    return (stream) =>
      traceAdmitted(tracer, stream, {
        admit: () => this.#admit(stream, source, how),
        serve: (agent, span) => {
          span.calls(agent.id)
          if (served.maxMessageBytes !== undefined) stream.messages.limit(served.maxMessageBytes)
          return this.#serve(
            served,
            new ServedCall(stream, {
              directory,
              agent,
              token: bearerToken(stream.metadata),
              retired: source.connection.retired,
              rate,
            }),
          )
        },
      })
  }

  #serve(method: AgentMethod, call: ServedCall): ReturnType<AgentMethod['serve']> {
    const release = method.patient ? this.#components.gitlab?.watchToken(call.token) : undefined
    return method.serve(call).finally(() => {
      release?.()
      call.served()
    })
  }

  /** Uses no async function: its frame would stay in memory for each idle tunnel. */
  #connect(stream: ServerStream, source: Source): Promise<void> {
    const { connection } = source
    const counted = !connection.spendReplacement()
    const rate = counted ? this.#rates.of(connectMethod) : undefined
    const how = { patient: true, counted, kind: 'tunnels', method: undefined, rate } as const
    return this.#admit(stream, source, how).then((agent) =>
      serveConnect(this.#connectComponents, { agent, connection, stream }),
    )
  }

  async #admit(stream: ServerStream, source: Source, { rate, ...how }: Admitting): Promise<Agent> {
    const bytes = headBytes(stream.metadata)
    try {
      const agent = await this.#authenticate(stream, source, { ...how, bytes })
      this.#components.openStreams.enter(agent.id, how.kind, bytes, how.method)
      this.#charge(stream, agent, { kind: how.kind, bytes, method: how.method })
      stream.session.quota.admitted(stream.session.streams.size)
      const waitMs = rate?.call(agent.id) ?? 0
      if (rate && waitMs > 0) await stream.whileOpen((signal) => rate.wait(waitMs, signal))
      return agent
    } catch (error) {
      if (KasError.from(error).code === 'TOO_MANY_STREAMS') stream.session.quota.refused(stream.session.streams.size)
      this.#countRefusal(stream, error)
      this.#recordRefusal(stream, source, error)
      throw error
    }
  }

  /** Counts the memory of the stream for its agent. */
  #charge(stream: ServerStream, { id }: Agent, { kind, bytes, method }: Entered): void {
    const { openStreams, unreadByAgent } = this.#components
    const own = unreadByAgent.enter(id)
    stream.onClosed(() => {
      openStreams.leave(id, kind, bytes, method)
      own.leave()
    })
    stream.chargeTo(own.unread)
  }

  /** Counts a connection for the first agent that is admitted on it. @throws KasError TOO_MANY_STREAMS */
  #knowConnection({ session, metadata }: ServerStream, address: string | undefined, agent: Agent): void {
    if (this.#known.has(session)) return
    const { id } = agent
    this.#enter(session, id)
    this.#known.add(session)
    const disconnected = this.#recordConnection(address, agent, metadata)
    const own = this.#components.unreadByAgent.enter(id)
    session.chargeTo(own.unread)
    session.window.widen()
    void session.closed.then(() => {
      this.#components.openStreams.leave(id, 'connections')
      own.leave()
      disconnected?.()
    })
  }

  /** @returns must be called when the connection ends */
  #recordConnection(address: string | undefined, agent: Agent, metadata: Metadata): (() => void) | undefined {
    const { accessLog, clock } = this.#components
    if (!accessLog) return undefined
    const began = clock.now()
    const { id, name, project } = agent
    const fields = {
      agent_id: String(id),
      agent: name,
      project: project.path,
      address: address ?? '',
      ...userAgentField(metadata['user-agent']?.[0]),
    }
    accessLog.event('agent_connected', 'session', `agent ${id}`, fields)
    return () => {
      const ms = Math.round(clock.now() - began)
      accessLog.event('agent_disconnected', 'session', `agent ${id}`, { ...fields, ms })
    }
  }

  #recordRefusal({ metadata }: ServerStream, { origin }: Source, error: unknown): void {
    const { accessLog } = this.#components
    const { code } = KasError.from(error)
    if (!accessLog || !refusalReason(code)) return
    const address = this.#addressOf(metadata, origin) ?? ''
    const refused = { event: 'agent_refused', reason: code, address } as const
    accessLog.stranger(refused, () => userAgentField(metadata['user-agent']?.[0]))
  }

  /** Counts a connection; one beyond the agent's limit closes after its streams. @throws KasError TOO_MANY_STREAMS */
  #enter(session: ServerStream['session'], id: Agent['id']): void {
    try {
      this.#components.openStreams.enter(id, 'connections')
    } catch (error) {
      session.close()
      throw error
    }
  }

  /** Returns the agent of a stream, whose connection is then let in. */
  async #authenticate(
    stream: ServerStream,
    { connection, origin }: Source,
    { bytes, ...how }: { patient: boolean; counted: boolean; bytes: number },
  ): Promise<Agent> {
    const { authenticator, arrivals } = this.#components
    const address = this.#addressOf(stream.metadata, origin)
    const call = { remote: connection.remoteAddress, isFront: origin.isFront, address }
    const decided = this.#undecidedHeadBytes.enter(connection, bytes)
    if (!decided) {
      const what = 'bytes of headers on this connection whose tokens are yet to be checked'
      throw new KasError({
        code: 'TOO_MANY_STREAMS',
        name: 'undecided_head_bytes_of_connection',
        limit: maxUndecidedHeadBytes,
        what,
      })
    }
    try {
      return await stream.whileOpen((open) => {
        const check = async (signal: AbortSignal) => {
          const agent = await authenticator.authenticate(stream.metadata, { ...how, from: address ?? '' }, signal)
          this.#components.tenants.learn(agent.id, agent.project.id)
          this.#knowConnection(stream, address, agent) // an error here keeps the connection out
          return agent
        }
        return arrivals.admit(call, check, open)
      })
    } finally {
      decided()
    }
  }

  #addressOf(metadata: Metadata, origin: Origin): string | undefined {
    return this.#components.addresses.ofRequest(origin, metadata['x-forwarded-for'])
  }

  #countRefusal(stream: ServerStream, error: unknown): void {
    const { refused, log } = this.#components
    const failure = KasError.from(error)
    const { code, message } = failure
    const reason = refusalReason(code)
    if (reason) refused(reason)
    const fields = { grpc_method: stream.method, code, ...limitField(failure), reason: message }
    log.debug(fields, 'A call of an agent was refused')
  }
}
