import { create, toBinary } from '@bufbuild/protobuf'
import type { Clock } from '../../../lib/clock.ts'
import { KasError } from '../../../lib/errors.ts'
import { abortable, linkedController } from '../../../lib/signals.ts'
import {
  type ObjectsToSynchronizeResponse,
  type ObjectsToSynchronizeResponse_Header,
  ObjectsToSynchronizeResponseSchema,
} from '../../../proto/gen/gitops_pb.ts'
import type { AgentCall } from '../../agent-method.ts'
import type { TreeFile } from '../../repositories/tree.ts'

export interface ObjectsSenderComponents {
  readonly call: Pick<AgentCall, 'send'>
  readonly clock: Clock
  /** true if others wait for the turn */
  readonly isContended: () => boolean
  readonly signal: AbortSignal
}

export interface ObjectsSenderOptions {
  /** the longest that the agent may take nothing, in ms */
  readonly maxStallMs: number
  /** the lowest average rate; a pause is offset by higher rates before or after it */
  readonly minBytesPerSecond: number
  /** the same while others wait for the turn */
  readonly minContendedBytesPerSecond: number
}

/** Bytes of a file in one message, as in upstream. */
const chunkBytes = 128 * 1024

/**
 * Sends one round. An agent that takes it too slowly is cut off, also if it takes a little from time to time.
 *
 * All methods throw KasError DEADLINE_EXCEEDED in that case, and the signal's reason.
 */
export class ObjectsSender {
  readonly #components: ObjectsSenderComponents
  readonly #options: ObjectsSenderOptions
  /** time by which the sent bytes are to be taken, by the clock */
  #dueAt: number
  /** the same while others wait */
  #contendedDueAt: number

  constructor(components: ObjectsSenderComponents, options: ObjectsSenderOptions) {
    this.#components = components
    this.#options = options
    this.#dueAt = components.clock.now() + options.maxStallMs
    this.#contendedDueAt = this.#dueAt
  }

  async header(value: Omit<ObjectsToSynchronizeResponse_Header, '$typeName' | '$unknown'>): Promise<void> {
    await this.#send({ case: 'header', value })
  }

  /** Sends at least one message. @param content - undefined: the agent has the file */
  async file({ path, blob }: TreeFile, content: Uint8Array | undefined): Promise<void> {
    const first = { source: path, blob: Buffer.from(blob, 'hex') }
    if (!content) return await this.#send({ case: 'object', value: { ...first, known: true } })
    let at = 0
    do {
      const data = content.subarray(at, at + chunkBytes)
      await this.#send({ case: 'object', value: at === 0 ? { ...first, data } : { source: path, data } })
      at += chunkBytes
    } while (at < content.length)
  }

  async trailer(): Promise<void> {
    await this.#send({ case: 'trailer', value: {} })
  }

  async #send(message: MessageOf): Promise<void> {
    const { call, signal } = this.#components
    const { minBytesPerSecond, minContendedBytesPerSecond } = this.#options
    signal.throwIfAborted()
    const bytes = toBinary(ObjectsToSynchronizeResponseSchema, create(ObjectsToSynchronizeResponseSchema, { message }))
    this.#dueAt = this.#later(this.#dueAt, bytes.length / minBytesPerSecond)
    this.#contendedDueAt = this.#later(this.#contendedDueAt, bytes.length / minContendedBytesPerSecond)
    const room = call.send(bytes)
    if (room) await this.#taken(room)
  }

  #later(dueAt: number, earnedSeconds: number): number {
    return Math.min(this.#components.clock.now() + this.#options.maxStallMs, dueAt + earnedSeconds * 1000)
  }

  async #taken(room: Promise<void>): Promise<void> {
    const { clock, isContended, signal } = this.#components
    const waiting = linkedController(signal)
    const late = () => waiting.abort(new KasError({ code: 'DEADLINE_EXCEEDED' }))
    const cancel = clock.after(Math.max(0, this.#dueAt - clock.now()), late)
    const lateForOthers = () => isContended() && late()
    const cancelForOthers = clock.after(Math.max(0, this.#contendedDueAt - clock.now()), lateForOthers)
    try {
      await abortable(room, waiting.signal)
    } finally {
      cancel()
      cancelForOthers()
      waiting.dispose()
    }
  }
}

type MessageOf = Exclude<
  Parameters<typeof create<typeof ObjectsToSynchronizeResponseSchema>>[1],
  ObjectsToSynchronizeResponse | undefined
>['message'] & {}
