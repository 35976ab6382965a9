import { create, type MessageInitShape, toBinary } from '@bufbuild/protobuf'
import { KasError } from '../../../../lib/errors.ts'
import { decodeMessage } from '../../../../proto/decode.ts'
import {
  type FollowRequest,
  FollowRequestSchema,
  FollowResponseSchema,
  type Open,
} from '../../../../proto/gen/views_pb.ts'
import { callerOf, roomUserOf } from '../../../caller.ts'
import type { OpenView, ViewHost } from '../view/view-host.ts'

/** Bound of what the tunnel has not taken. Past it updates wait in their order, at most one of each view. bytes */
const maxUnsentBytes = 1024 * 1024

export interface FollowStreamComponents {
  readonly host: Pick<ViewHost, 'open'>
  readonly send: (response: Uint8Array) => void
}

/** One stream of `Views/Follow`: the views of all viewers at one replica of kas, by the numbers that it gives them. */
export class FollowStream {
  readonly #components: FollowStreamComponents
  readonly #views = new Map<number, OpenView>()
  /** updates that wait, by view */
  readonly #waiting = new Map<number, Uint8Array>()
  #unsentBytes = 0

  constructor(components: FollowStreamComponents) {
    this.#components = components
  }

  /** @throws KasError INVALID_MESSAGE: the stream cannot go on */
  receive(bytes: Uint8Array): void {
    const request = decodeMessage(FollowRequestSchema, bytes)
    const { view, step } = request
    const open = this.#views.get(view)
    if (step.case === 'open') this.#open(view, step.value)
    else if (!open)
      return // the view has ended by itself meanwhile
    else this.#step(open, request)
  }

  /** Notes the bytes that the tunnel has taken, and sends updates that wait. */
  sent(bytes: number): void {
    this.#unsentBytes -= bytes
    for (const [view, response] of this.#waiting) {
      if (this.#unsentBytes >= maxUnsentBytes) return
      this.#waiting.delete(view)
      this.#pass(response)
    }
  }

  end(): void {
    for (const view of this.#views.values()) view.close()
    this.#views.clear()
    this.#waiting.clear()
  }

  #step(open: OpenView, { view, step }: FollowRequest): void {
    if (step.case === 'page') open.page(step.value.node, step.value.limit, step.value.offset)
    else if (step.case === 'taken') open.taken(Number(step.value.seq))
    else if (step.case === 'close') {
      this.#forget(view)
      open.close()
    }
  }

  #open(view: number, { caller, query, resumes, fresh }: Open): void {
    if (this.#views.has(view)) throw new KasError({ code: 'INVALID_MESSAGE', detail: `view ${view} is open` })
    try {
      const out = {
        update: (seq: number, update: Uint8Array) => this.#update(view, seq, update),
        ended: (error: KasError) => {
          this.#forget(view)
          this.#fault(view, error)
        },
      }
      const viewer = roomUserOf(caller, 'a view')
      const wanted = { caller: callerOf(caller, 'a view'), viewer, query, resumes, fresh }
      this.#views.set(view, this.#components.host.open(wanted, out))
    } catch (error) {
      this.#fault(view, KasError.from(error))
    }
  }

  #forget(view: number): void {
    this.#views.delete(view)
    this.#waiting.delete(view)
  }

  #update(view: number, seq: number, update: Uint8Array): void {
    const response = encode({ view, seq: BigInt(seq), update })
    if (this.#unsentBytes < maxUnsentBytes) this.#pass(response)
    else this.#waiting.set(view, response)
  }

  #fault(view: number, { code, message: text }: KasError): void {
    this.#pass(encode({ view, fault: { code, text } }))
  }

  #pass(response: Uint8Array): void {
    this.#unsentBytes += response.length
    this.#components.send(response)
  }
}

function encode(response: MessageInitShape<typeof FollowResponseSchema>): Uint8Array {
  return toBinary(FollowResponseSchema, create(FollowResponseSchema, response))
}
