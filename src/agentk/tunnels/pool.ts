import { create } from '@bufbuild/protobuf'
import type { Metadata } from '../../call/call.ts'
import { Backoff } from '../../lib/backoff.ts'
import type { Clock } from '../../lib/clock.ts'
import { Code, KasError } from '../../lib/errors.ts'
import type { Logger } from '../../lib/log.ts'
import type { Service } from '../../lib/service.ts'
import { abortable } from '../../lib/signals.ts'
import { AgentDescriptorSchema } from '../../proto/gen/info_pb.ts'
import type { ClientStream } from '../../proto/grpc/client-session.ts'
import { connectMethod, encodeConnectRequest } from '../../proto/reverse-tunnel.ts'
import type { Serve } from './serve.ts'
import { Tunnel, type TunnelEnd } from './tunnel.ts'

/** Upstream's pause after a refused Connect, in ms (doc/reference/tunnel-protocol.md 2.5). */
const refusedBackoff = { firstMs: 1000, maxMs: 20_000, factor: 1.6, jitter: 0.2, resetMs: 25_000 }
/** Codes after which upstream opens the next tunnel at once, as after OK. */
const immediate: ReadonlySet<number> = new Set([Code.CANCELLED, Code.DEADLINE_EXCEEDED])

/** A session, as far as the pool uses it. */
export interface TunnelSession {
  readonly draining: boolean
  open(init: { method: string; metadata: Metadata }): ClientStream
  onDraining(listener: () => void): void
}

export interface TunnelPoolComponents {
  /** `session` waits for the session to open tunnels on; it throws the signal's reason */
  readonly sessions: {
    session(signal: AbortSignal): Promise<TunnelSession>
    onSession(listener: (session: TunnelSession) => void): void
  }
  /** served methods, by name; read at the start, and by `announce` */
  readonly methods: () => ReadonlyMap<string, Serve>
  /** read at each Connect */
  readonly metadata: () => Metadata
  /** called with the metadata of kas' answer to a Connect, before its first message */
  readonly onMetadata?: (session: TunnelSession, metadata: Metadata) => void
  /** kas reuses a tunnel after its call; absent: it does not */
  readonly isReused?: (session: TunnelSession) => boolean
  readonly log: Logger
  readonly clock: Clock
  readonly random: () => number
}

export interface PoolSize {
  readonly minIdle: number
  /** limit of idle and active tunnels together */
  readonly max: number
}

export interface TunnelPoolOptions extends PoolSize {
  /** tunnels opened at once when fewer than `minIdle` are idle */
  readonly step: number
  /** time without a call after which an idle tunnel over the minimum is not opened again, in ms */
  readonly idleMs: number
}

/** Upstream's sizes (doc/reference/tunnel-protocol.md 2.7). */
export const stockPool: TunnelPoolOptions = { minIdle: 2, max: 500, step: 10, idleMs: 60_000 }

/** One slot opens a tunnel and, when that has ended, the next. */
interface Slot {
  /**
   * Idle: waits for a call, for a connection or for its pause to end. Active: has a call. Leaving: idle on a connection
   * that is going away, or with old methods. Another slot replaces it.
   */
  state: 'idle' | 'active' | 'leaving'
  session: TunnelSession | undefined
  tunnel: Tunnel | undefined
  /** descriptor that was sent to kas on the tunnel */
  announced: Uint8Array | undefined
  /** another slot announces the present methods, so this one opens no more tunnels unless it is needed */
  isReplaced: boolean
  /** time at which its last call ended; before the first call, the time of its creation */
  usedAt: number
}

/** Keeps enough idle tunnels open to kas. */
export class TunnelPool implements Service {
  readonly #components: TunnelPoolComponents
  readonly #options: TunnelPoolOptions
  #methods: ReadonlyMap<string, Serve> = new Map()
  #descriptor = encodeDescriptor([])
  readonly #slots = new Set<Slot>()
  readonly #running = new Set<Promise<void>>()
  #minIdle: number
  #max: number
  readonly #stopping = new AbortController()
  #idle = 0
  #active = 0
  #served = 0
  #started = false

  constructor(components: TunnelPoolComponents, options: TunnelPoolOptions = stockPool) {
    this.#components = components
    this.#options = options
    this.#minIdle = options.minIdle
    this.#max = options.max
  }

  get counts(): { idle: number; active: number; served: number } {
    return { idle: this.#idle, active: this.#active, served: this.#served }
  }

  async start(): Promise<void> {
    this.#readMethods()
    this.#components.sessions.onSession((session) => session.onDraining(() => this.#replace(session)))
    this.#started = true
    this.#grow(this.#minIdle)
  }

  /** Changes the sizes. Surplus tunnels end when they are found to be spare, or with their calls. */
  resize({ minIdle, max }: PoolSize): void {
    this.#minIdle = minIdle
    this.#max = max
    if (this.#started && this.#idle < minIdle) this.#grow(minIdle - this.#idle)
  }

  /** Opens one more tunnel, so that kas gets the present metadata. */
  openOne(): void {
    if (this.#started) this.#grow(1)
  }

  /**
   * Announces other methods. kas learns of them by new tunnels, which replace idle ones. Replaced tunnels still
   * announce the old methods, and each takes one more call at most. None is cancelled, because a call may be on its way
   * to it.
   */
  announce(): void {
    if (!this.#started) return
    const before = this.#descriptor
    this.#readMethods()
    if (isSame(before, this.#descriptor)) return
    for (const slot of this.#slots) {
      if (!slot.tunnel) continue
      const isCurrent = this.#isCurrent(slot)
      if (slot.state === 'idle' && !isCurrent) {
        slot.state = 'leaving'
        slot.isReplaced = true
        this.#idle -= 1
      } else if (slot.state === 'leaving' && isCurrent && !slot.session?.draining) {
        slot.state = 'idle'
        slot.isReplaced = false
        this.#idle += 1
      }
    }
    if (this.#idle < this.#minIdle) this.#grow(this.#minIdle - this.#idle)
  }

  /** Opens no more tunnels. Resolves when all have ended: idle ones when kas ends them, others with their calls. */
  async retire(): Promise<void> {
    this.#stopping.abort(new KasError({ code: 'CANCELLED', detail: 'agentk uses another connection' }))
    await Promise.all(this.#running)
  }

  /** Ends idle tunnels at once, because no more calls come. */
  async leave(): Promise<void> {
    this.#stopping.abort(new KasError({ code: 'CANCELLED', detail: 'agentk is stopping' }))
    for (const slot of this.#slots) if (slot.state !== 'active') slot.tunnel?.cancel()
  }

  /** Ends active tunnels with their calls, or when `patience` aborts. */
  async stop(patience?: AbortSignal): Promise<void> {
    await this.leave()
    const all = Promise.all(this.#running)
    if (patience) await abortable(all, patience).catch(() => undefined)
    for (const slot of this.#slots) slot.tunnel?.cancel()
    await all
  }

  #grow(count: number): void {
    if (this.#stopping.signal.aborted) return
    for (let i = Math.min(count, this.#max - this.#slots.size); i > 0; i--) {
      const usedAt = this.#components.clock.now()
      const slot: Slot = {
        state: 'idle',
        session: undefined,
        tunnel: undefined,
        announced: undefined,
        isReplaced: false,
        usedAt,
      }
      this.#slots.add(slot)
      this.#idle += 1
      const run = this.#run(slot).finally(() => this.#running.delete(run))
      this.#running.add(run)
    }
  }

  /** Replaces the idle tunnels of a connection that is going away. kas may still use these. */
  #replace(session: TunnelSession): void {
    for (const slot of this.#slots) {
      if (slot.session !== session || slot.state !== 'idle') continue
      slot.state = 'leaving'
      this.#idle -= 1
    }
    if (this.#idle < this.#minIdle) this.#grow(this.#minIdle - this.#idle)
  }

  async #run(slot: Slot): Promise<void> {
    const { log } = this.#components
    const backoff = new Backoff(this.#components, refusedBackoff)
    try {
      while (slot.state === 'idle' && !this.#stopping.signal.aborted) {
        const { used, error } = await this.#serveOne(slot)
        if (!used && this.#isSpare(slot)) break
        if (slot.isReplaced && this.#idle > this.#minIdle) break
        slot.isReplaced = false
        if (error && !immediate.has(error.grpcCode) && !slot.session?.draining) {
          log.warn({ error }, 'kas ended a tunnel')
          await backoff.wait(this.#stopping.signal)
        }
      }
    } finally {
      if (slot.state === 'idle') this.#idle -= 1
      this.#slots.delete(slot)
    }
  }

  async #serveOne(slot: Slot): Promise<TunnelEnd> {
    const { sessions, metadata, log, onMetadata } = this.#components
    try {
      const session = await sessions.session(this.#stopping.signal)
      slot.session = session
      const stream = session.open({ method: connectMethod, metadata: metadata() })
      if (onMetadata) void stream.metadata.then((received) => received && onMetadata(session, received))
      slot.tunnel = new Tunnel({
        stream,
        dispatch: (call) => {
          const serve = this.#methods.get(call.method)
          if (!serve) throw new KasError({ code: 'METHOD_UNKNOWN', method: call.method })
          return serve(call)
        },
        onFault: (error, method) => log.error({ error, grpc_method: method }, 'A call failed by a fault of agentk'),
      })
      slot.announced = this.#descriptor
      return await slot.tunnel.serve(this.#descriptor, {
        active: () => this.#activate(slot),
        idle: () => this.#goesOn(slot, session),
      })
    } catch (error) {
      return { used: false, error: KasError.from(error) }
    } finally {
      slot.tunnel = undefined
      if (slot.state === 'active') this.#rest(slot)
    }
  }

  #activate(slot: Slot): void {
    if (slot.state === 'idle') this.#idle -= 1
    slot.state = 'active'
    this.#active += 1
    this.#served += 1
    if (this.#idle < this.#minIdle) this.#grow(this.#options.step)
  }

  /** @returns true if the tunnel, which has carried a call, waits for another one: kas must be informed */
  #goesOn(slot: Slot, session: TunnelSession): boolean {
    const { isReused } = this.#components
    if (slot.state !== 'active' || !isReused?.(session) || session.draining || this.#stopping.signal.aborted)
      return false
    if (!this.#isCurrent(slot)) return false
    this.#rest(slot)
    return true
  }

  #rest(slot: Slot): void {
    slot.usedAt = this.#components.clock.now()
    this.#active -= 1
    this.#idle += 1
    slot.state = 'idle'
  }

  #readMethods(): void {
    this.#methods = this.#components.methods()
    this.#descriptor = encodeDescriptor(this.#methods.keys())
  }

  #isCurrent({ announced }: Slot): boolean {
    return announced !== undefined && isSame(announced, this.#descriptor)
  }

  /** True if more tunnels are idle than needed, and this one was not used for a while. */
  #isSpare({ usedAt }: Slot): boolean {
    return this.#idle > this.#minIdle && this.#components.clock.now() - usedAt >= this.#options.idleMs
  }
}

function isSame(one: Uint8Array, other: Uint8Array): boolean {
  return one === other || Buffer.compare(one, other) === 0
}

/** Encodes names of the form `/package.Service/Method` as services and methods, by which kas chooses a tunnel. */
function encodeDescriptor(methods: Iterable<string>): Uint8Array {
  const services = new Map<string, { name: string }[]>()
  for (const path of methods) {
    const [, service = '', name = ''] = path.split('/')
    services.set(service, [...(services.get(service) ?? []), { name }])
  }
  const list = Array.from(services, ([name, each]) => ({ name, methods: each }))
  return encodeConnectRequest.descriptor(create(AgentDescriptorSchema, { services: list }))
}
