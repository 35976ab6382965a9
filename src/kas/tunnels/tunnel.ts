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
 * - `forwarding`: a call owns it, to its end
 * - `ended`: nobody does
 */
export type TunnelState = 'idle' | 'taken' | 'forwarding' | 'ended'

const steps: Record<TunnelState, readonly TunnelState[]> = {
  idle: ['taken', 'ended'],
  taken: ['idle', 'forwarding', 'ended'],
  forwarding: ['idle', 'ended'],
  ended: [],
}

export interface TunnelOptions {
  /** `/package.Service/Method`, all that the agent's descriptor names */
  readonly methods: ReadonlySet<string>
  /** the agent may use it for one call after another (doc/decisions/0011): called when it is idle again */
  readonly onIdle?: (() => void) | undefined
  /** what the agent said of a reply was beyond its bounds, and is passed on in part */
  readonly onCut?: (() => void) | undefined
  readonly tracer: Tracer
}

/** One Connect stream of an agent: carries one call (doc/reference/tunnel-protocol.md 3), or one after another. */
export class Tunnel {
  readonly connection: AgentConnection
  readonly methods: ReadonlySet<string>
  /** how the Connect stream is to end: resolves for OK, rejects with a KasError for its status */
  readonly ended: Promise<void>
  readonly #stream: ServerStream
  readonly #onIdle: (() => void) | undefined
  readonly #onCut: (() => void) | undefined
  readonly #tracer: Tracer
  readonly #end = Promise.withResolvers<void>()
  #state: TunnelState = 'idle'
  #call: TunnelCall | undefined
  /** the read that is outstanding while the tunnel is idle, when nothing must come; the next call's first */
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

  /** Back to idle, unused. */
  giveBack(): void {
    this.#step('idle')
  }

  /** Ends an idle tunnel with OK: the agent opens another at once. */
  retire(): void {
    this.#step('ended')
    this.#end.resolve()
  }

  /** As `retire`, if it is idle. @returns whether it was */
  endIdle(): boolean {
    if (this.#state !== 'idle') return false
    this.retire()
    return true
  }

  /** Ends the watch that it carries, with WATCH_RECALLED: another caller waits. The agent opens another tunnel. */
  recall(): void {
    this.#call?.recall()
  }

  /** Ends the call that it carries, as if its connection were lost: whoever can goes on elsewhere. */
  lose(): void {
    this.#call?.lose()
  }

  /** Carries `call`, whose owner it is from now on. */
  forward(call: Call): Reply {
    this.#step('forwarding')
    this.connection.callStarted()
    const { method, metadata: parent, agentId } = call
    const attributes = { 'network.peer.address': this.connection.remoteAddress }
    const span = RpcSpan.begin(this.#tracer, { kind: 'client', method, parent, attributes })
    span.calls(agentId)
    const reply = this.#carry(span.call(call))
    if (span !== RpcSpan.none) void reply.done.then(({ error }) => span.end(error))
    return reply
  }

  #carry(call: Call): Reply {
    const order = this.#onIdle ? reusedConnectRequestOrder : connectRequestOrder
    const onEnd = (end: TunnelCallEnd) => this.#onCallEnd(end)
    const onCut = () => this.#onCut?.()
    this.#call = new TunnelCall({ stream: this.#stream, first: this.#first, order, onEnd, onCut }, call)
    return this.#call.run()
  }

  /** What comes before the next call is a fault, or the end. */
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

  /**
   * The agent has said all, and Connect ends with OK or goes on; or with an error, which stops the agent's work too.
   */
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
