import type { Call, Reply } from '../../call/call.ts'
import { RpcSpan } from '../../call/rpc-span.ts'
import { KasError } from '../../lib/errors.ts'
import type { Tracer } from '../../lib/tracing/tracer.ts'
import type { ServerStream } from '../../proto/grpc/server-stream.ts'
import { connectRequestOrder, reusedConnectRequestOrder } from '../../proto/reverse-tunnel.ts'
import type { AgentConnection } from './agent-connection.ts'
import { TunnelCall, type TunnelCallEnd } from './tunnel-call.ts'

/**
 * - `idle`: the registry owns it; nothing was sent on it since the last call
 * - `taken`: a router owns it; it may still be given back unused
 * - `forwarding`: a call owns it, until the call ends
 * - `ended`: it has no owner
 */
export type TunnelState = 'idle' | 'taken' | 'forwarding' | 'ended'

const steps: Record<TunnelState, readonly TunnelState[]> = {
  idle: ['taken', 'ended'],
  taken: ['idle', 'forwarding', 'ended'],
  forwarding: ['idle', 'ended'],
  ended: [],
}

export interface TunnelOptions {
  /** `/package.Service/Method`, all methods of the agent's descriptor */
  readonly methods: ReadonlySet<string>
  /** Called when the tunnel is idle again; absent: the agent uses it for one call only (doc/decisions/0011). */
  readonly onIdle?: (() => void) | undefined
  /** Called when the agent sent more of a reply's status or metadata than is passed on. */
  readonly onCut?: (() => void) | undefined
  readonly tracer: Tracer
}

/** One Connect stream of an agent: carries one call (doc/reference/tunnel-protocol.md 3), or one after another. */
export class Tunnel {
  readonly connection: AgentConnection
  readonly methods: ReadonlySet<string>
  /** end of the Connect stream: resolves for OK, rejects with a KasError for its status */
  readonly ended: Promise<void>
  readonly #stream: ServerStream
  readonly #onIdle: (() => void) | undefined
  readonly #onCut: (() => void) | undefined
  readonly #tracer: Tracer
  readonly #end = Promise.withResolvers<void>()
  #state: TunnelState = 'idle'
  #call: TunnelCall | undefined
  /**
   * read that is pending while the tunnel is idle, when nothing may come; its result is the next call's first message
   */
  #first: Promise<IteratorResult<Uint8Array>>

  /** @param stream - its descriptor has been read */
  constructor(stream: ServerStream, connection: AgentConnection, { methods, onIdle, onCut, tracer }: TunnelOptions) {
    this.connection = connection
    this.methods = methods
    this.ended = this.#end.promise
    this.#stream = stream
    this.#onIdle = onIdle
    this.#onCut = onCut
    this.#tracer = tracer
    this.#first = this.#listen()
  }

  get state(): TunnelState {
    return this.#state
  }

  take(): void {
    this.#step('taken')
  }

  /** Makes a taken tunnel idle again, unused. */
  giveBack(): void {
    this.#step('idle')
  }

  /** Ends an idle tunnel with OK: the agent opens another at once. */
  retire(): void {
    this.#step('ended')
    this.#end.resolve()
  }

  /** Ends the tunnel as `retire` does, if it is idle. @returns true: it was idle */
  endIdle(): boolean {
    if (this.#state !== 'idle') return false
    this.retire()
    return true
  }

  /**
   * Ends the watch on this tunnel with WATCH_RECALLED, because another caller waits. The agent opens another tunnel.
   */
  recall(): void {
    this.#call?.recall()
  }

  /** Ends the call on this tunnel as if its connection were lost: clients that can continue elsewhere do so. */
  lose(): void {
    this.#call?.lose()
  }

  /** Carries `call`, which owns the tunnel from now on. */
  forward(call: Call): Reply {
    this.#step('forwarding')
    this.connection.callStarted()
    const { method, metadata: parent, agentId } = call
    const attributes = { 'network.peer.address': this.connection.remoteAddress }
    const span = RpcSpan.begin(this.#tracer, { kind: 'client', method, parent, attributes })
    span.calls(agentId)
    const reply = this.#run(span.call(call))
    if (span !== RpcSpan.none) void reply.done.then(({ error }) => span.end(error))
    return reply
  }

  #run(call: Call): Reply {
    const order = this.#onIdle ? reusedConnectRequestOrder : connectRequestOrder
    const onEnd = (end: TunnelCallEnd) => this.#onCallEnd(end)
    const onCut = () => this.#onCut?.()
    this.#call = new TunnelCall({ stream: this.#stream, first: this.#first, order, onEnd, onCut }, call)
    return this.#call.run()
  }

  /** Begins the read for the next call: a message or the end before that call ends the tunnel. */
  #listen(): Promise<IteratorResult<Uint8Array>> {
    const first = this.#stream.messages.next()
    first.then(
      (result) => this.#onIdleMessage(result),
      (error: unknown) => this.#onLost(error),
    )
    return first
  }

  #onIdleMessage(result: IteratorResult<Uint8Array>): void {
    if (this.#state === 'forwarding' || this.#state === 'ended') return
    this.#step('ended')
    if (result.done) this.#end.resolve()
    else this.#end.reject(new KasError({ code: 'INVALID_MESSAGE', detail: 'a message on an idle tunnel' }))
  }

  #onLost(error: unknown): void {
    if (this.#state === 'forwarding' || this.#state === 'ended') return
    this.#step('ended')
    this.#end.reject(error)
  }

  /** Makes the tunnel idle after a call, or ends Connect: with OK, or with the error, which stops the agent's work. */
  #onCallEnd(end: TunnelCallEnd): void {
    this.#call = undefined
    this.connection.callEnded(end !== 'idle')
    if (end === 'idle') {
      this.#step('idle')
      this.#first = this.#listen()
      this.#onIdle?.()
      return
    }
    this.#step('ended')
    if (end === 'EOF') this.#end.resolve()
    else this.#end.reject(end)
  }

  #step(to: TunnelState): void {
    if (!steps[this.#state].includes(to)) throw new Error(`a tunnel cannot go from ${this.#state} to ${to}`)
    this.#state = to
  }
}
