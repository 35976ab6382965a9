import { create, toBinary } from '@bufbuild/protobuf'
import type { Clock } from '../../../../lib/clock.ts'
import type { Logger } from '../../../../lib/log.ts'
import { GitopsStates, type SourceState, SourceStateSchema } from '../../../../proto/gen/gitops_states_pb.ts'
import { maxStateBytes } from '../../../../proto/gitops/limits.ts'
import { stateLists } from '../../../../proto/gitops/state-lists.ts'
import type { ClientStream } from '../../../../proto/grpc/client-session.ts'
import { methodPath } from '../../../../proto/unary.ts'
import type { KasConnections } from '../../../tunnels/kas-connections.ts'
import { type KeptStream, keepOpen } from '../../../tunnels/keep-open.ts'
import type { StatusReader } from './status-sink.ts'

export const pushMethod = methodPath(GitopsStates.method.push)

/** Least time between reports of one source, and before an ended stream is opened again. ms */
const minMs = 250

/** Limit of sources that the configuration had during this term. */
const maxRemoved = 100

/** Limit of unsent bytes: a kas that does not read gets nothing more. */
const maxUnsentBytes = 1024 * 1024

export interface StatePushComponents {
  readonly kas: Pick<KasConnections, 'session' | 'metadata'>
  /** this pod leads now; without this check, its states could replace those of a new leader */
  readonly holds: () => boolean
  readonly log: Logger
  readonly clock: Clock
  readonly random: () => number
}

/** Reports the state of each source to the connected kas: all when a stream begins, later those that change. */
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

  /** Reports the source soon, with its state at that time. */
  changed(state: SourceState): void {
    this.#put(state)
  }

  /** Reports, while this pod leads, that the configuration no longer has the source. */
  removed(id: string): void {
    this.#put(create(SourceStateSchema, { source: id, removed: true }))
    const removed = [...this.#known].filter(([, state]) => state.removed)
    const [oldest] = removed
    if (oldest && removed.length > maxRemoved) this.#known.delete(oldest[0])
  }

  /** Reports until the signal aborts; the stream is opened again whenever it ends. Never rejects. */
  run(signal: AbortSignal): Promise<void> {
    const { log } = this.#components
    const kept: KeptStream = {
      method: pushMethod,
      isOurs: true,
      restMs: minMs,
      read: (stream) => this.#pushOn(stream),
      refused: (error) => log.error({ error }, 'The state of sources cannot be sent to kas'),
      failed: (error) => log.error({ error }, 'The stream of states failed'),
    }
    return keepOpen(this.#components, kept, signal)
  }

  async #pushOn(stream: ClientStream): Promise<'ended'> {
    this.#stream = stream
    for (const id of this.#known.keys()) this.#due.add(id)
    this.#push()
    try {
      await stream.done
      return 'ended'
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

/** Encodes a state. Its lists are halved until it fits. The texts beside them are bounded by those who write them. */
export function encoded(state: SourceState): Uint8Array {
  for (let left = state; ; ) {
    const bytes = toBinary(SourceStateSchema, left)
    const shorter = bytes.length > maxStateBytes ? halved(left) : undefined
    if (!shorter) return bytes
    left = shorter
  }
}

/** Halves all lists of objects, or the environments once the others are empty. @returns undefined: all are empty */
function halved(state: SourceState): SourceState | undefined {
  const full = stateLists.map(({ localName }) => localName as keyof SourceState).filter((name) => lengthOf(state, name))
  if (full.length === 0) return undefined
  const ofObjects = full.filter((name) => name !== 'environment')
  const shorter = (ofObjects.length > 0 ? ofObjects : full).map((name) => {
    const list = state[name] as readonly unknown[]
    return [name, list.slice(0, Math.floor(list.length / 2))]
  })
  return { ...state, ...Object.fromEntries(shorter), ...(ofObjects.length > 0 && { isCut: true }) }
}

const lengthOf = (state: SourceState, name: keyof SourceState) => (state[name] as readonly unknown[]).length
