import { create, toBinary } from '@bufbuild/protobuf'
import { Backoff } from '../../../../lib/backoff.ts'
import type { Clock } from '../../../../lib/clock.ts'
import { Code, KasError } from '../../../../lib/errors.ts'
import type { Logger } from '../../../../lib/log.ts'
import { pause } from '../../../../lib/pause.ts'
import { GitopsStates, type SourceState, SourceStateSchema } from '../../../../proto/gen/gitops_states_pb.ts'
import { maxStateBytes } from '../../../../proto/gitops/limits.ts'
import type { ClientSession, ClientStream } from '../../../../proto/grpc/client-session.ts'
import { methodPath } from '../../../../proto/unary.ts'
import type { KasConnections } from '../../../tunnels/kas-connections.ts'
import type { StatusReader } from './status-sink.ts'

export const pushMethod = methodPath(GitopsStates.method.push)

/** Upstream's for such streams (doc/reference/tunnel-protocol.md 2.5). */
const backoffOptions = { firstMs: 10_000, maxMs: 300_000, factor: 2, jitter: 1, resetMs: 600_000 }
/** A source that changes faster is reported as often as this; a stream that ends at once is opened again after so long. ms */
const minMs = 250

/** Sources that the configuration had during this term. */
const maxRemoved = 100

/** Nothing more is sent to a kas that does not read. */
const maxUnsentBytes = 1024 * 1024

export interface StatePushComponents {
  readonly kas: Pick<KasConnections, 'session' | 'metadata'>
  /** whether this pod leads now: another one's word goes before its own else */
  readonly holds: () => boolean
  readonly log: Logger
  readonly clock: Clock
  readonly random: () => number
}

/** Reports to the kas at hand how each source fares: all of them when a stream begins, then those that change. */
export class StatePush implements StatusReader {
  readonly #components: StatePushComponents
  /** by the source's id */
  readonly #known = new Map<string, SourceState>()
  readonly #due = new Set<string>()
  #stream: ClientStream | undefined
  #cancel: (() => void) | undefined

  constructor(components: StatePushComponents) {
    this.#components = components
  }

  /** Reported soon, and as it is then. */
  changed(state: SourceState): void {
    this.#put(state)
  }

  /** The configuration has it no longer: that is reported like a state, for as long as this pod leads. */
  removed(id: string): void {
    this.#put(create(SourceStateSchema, { source: id, removed: true }))
    const removed = [...this.#known].filter(([, state]) => state.removed)
    const [oldest] = removed
    if (oldest && removed.length > maxRemoved) this.#known.delete(oldest[0])
  }

  /** Until the signal aborts; the stream is opened again whenever it ends. Never rejects. */
  async run(signal: AbortSignal): Promise<void> {
    const { kas, log, clock } = this.#components
    const backoff = new Backoff(this.#components, backoffOptions)
    while (!signal.aborted) {
      try {
        const session = await kas.session(signal)
        const error = await this.#pushOn(session, signal)
        if (signal.aborted || session.draining) continue
        if (!error || error.code === 'TUNNEL_LOST' || error.grpcCode === Code.CANCELLED) {
          await pause(minMs, clock, signal)
          continue
        }
        // one that knows nothing of it is no fault
        if (error.grpcCode !== Code.UNIMPLEMENTED) log.error({ error }, 'The state of sources cannot be sent to kas')
      } catch (error) {
        if (signal.aborted) return
        if (KasError.from(error).code !== 'TUNNEL_LOST') log.error({ error }, 'The stream of states failed')
      }
      await backoff.wait(signal)
    }
  }

  /** One stream to its end. @returns its error, undefined for OK */
  async #pushOn(session: ClientSession, signal: AbortSignal): Promise<KasError | undefined> {
    const stream = session.open({ method: pushMethod, metadata: this.#components.kas.metadata(), signal })
    this.#stream = stream
    for (const id of this.#known.keys()) this.#due.add(id)
    this.#push()
    try {
      return (await stream.done).error
    } finally {
      this.#stream = undefined
      this.#cancel?.()
      this.#cancel = undefined
    }
  }

  #put(state: SourceState): void {
    this.#known.set(state.source, state)
    this.#due.add(state.source)
    if (this.#stream) this.#soon()
  }

  #soon(): void {
    this.#cancel ??= this.#components.clock.after(minMs, () => {
      this.#cancel = undefined
      this.#push()
    })
  }

  #push(): void {
    const stream = this.#stream
    if (stream && this.#due.size > 0 && !this.#components.holds()) {
      this.#soon()
      return
    }
    for (const id of this.#due) {
      if (!stream) return
      if (stream.unsentBytes > maxUnsentBytes) {
        this.#soon()
        return
      }
      this.#due.delete(id)
      const state = this.#known.get(id)
      if (state) void stream.send(encoded(state))
    }
  }
}

/** With as much of what is not well as there is room for. */
export function encoded(state: SourceState): Uint8Array {
  for (let left = state; ; left = halved(left)) {
    const bytes = toBinary(SourceStateSchema, left)
    if (bytes.length <= maxStateBytes) return bytes
  }
}

function halved(state: SourceState): SourceState {
  const half = <T>(all: readonly T[]) => all.slice(0, Math.floor(all.length / 2))
  const { trouble, planned, orphan, leaving, kept, environment, plan } = state
  const objects = trouble.length + planned.length + orphan.length + leaving.length + kept.length
  if (objects === 0) return { ...state, environment: half(environment) }
  const lists = { trouble: half(trouble), planned: half(planned), orphan: half(orphan) }
  const next = plan === '' ? state.next : '' // nobody approves what nobody is shown
  return { ...state, ...lists, leaving: half(leaving), kept: half(kept), next }
}
