import { create, fromBinary, toBinary } from '@bufbuild/protobuf'
import { type AgentId, type Call, type Forward, noMetadata, type Outcome } from '../../../../../../src/call/call.ts'
import type { Viewer } from '../../../../../../src/kas/modules/views/feed/view.ts'
import type { KasError } from '../../../../../../src/lib/errors.ts'
import {
  type FollowRequest,
  FollowRequestSchema,
  FollowResponseSchema,
} from '../../../../../../src/proto/gen/views_pb.ts'

export const agentId = 42n as AgentId

interface Response {
  readonly view: number
  readonly seq?: number
  readonly update?: string
  readonly fault?: { readonly code: string; readonly text: string }
}

/** One Follow call. The test plays the agent. */
export class FakeFollow {
  readonly call: Call
  readonly #steps: AsyncIterator<Uint8Array>
  readonly #said: Uint8Array[] = []
  readonly #done = Promise.withResolvers<Outcome>()
  #wake: (() => void) | undefined
  #hasEnded = false

  constructor(call: Call) {
    this.call = call
    this.#steps = call.messages[Symbol.asyncIterator]()
    call.signal.addEventListener('abort', () => this.end(call.signal.reason))
  }

  /** Returns the next request that the agent receives; undefined: there is none. */
  async next(): Promise<FollowRequest | undefined> {
    const { value, done } = await this.#steps.next()
    return done ? undefined : fromBinary(FollowRequestSchema, value)
  }

  /** Returns the next request as a short text. */
  async step(): Promise<string> {
    const request = await this.next()
    if (!request) return 'end'
    const { view, step } = request
    switch (step.case) {
      case 'open': {
        const { caller, query, resumes, fresh } = step.value
        const as = caller?.as.case === 'user' ? caller.as.value.username : (caller?.as.case ?? 'nobody')
        return `${view} ${resumes ? 'resume' : 'open'} ${as} ${Buffer.from(query)}${fresh ? ' fresh' : ''}`
      }
      case 'page':
        return `${view} page ${step.value.node} ${step.value.limit}${step.value.offset ? ` from ${step.value.offset}` : ''}`
      case 'taken':
        return `${view} taken ${step.value.seq}`
      default:
        return `${view} ${step.case}`
    }
  }

  say({ seq = 0, update = '', ...response }: Response): this {
    const message = { ...response, seq: BigInt(seq), update: Buffer.from(update) }
    return this.sayBytes(toBinary(FollowResponseSchema, create(FollowResponseSchema, message)))
  }

  sayBytes(bytes: Uint8Array): this {
    this.#said.push(bytes)
    this.#wake?.()
    return this
  }

  end(error?: KasError): void {
    this.#hasEnded = true
    this.#done.resolve({ error, trailers: noMetadata })
    this.#wake?.()
  }

  /** messages that kas has not read yet */
  get unread(): number {
    return this.#said.length
  }

  get done(): Promise<Outcome> {
    return this.#done.promise
  }

  async *read(): AsyncGenerator<Uint8Array, void, void> {
    try {
      for (;;) {
        const bytes = this.#said.shift()
        if (bytes) yield bytes
        else if (this.#hasEnded) return
        else
          await new Promise<void>((resolve) => {
            this.#wake = resolve
          })
      }
    } finally {
      this.end()
    }
  }
}

/** Records each Follow call for the test, or refuses it with `failure`. */
export class FakeFollows {
  readonly all: FakeFollow[] = []
  failure: KasError | undefined

  readonly forward: Forward = async (call) => {
    if (this.failure) throw this.failure
    const follow = new FakeFollow(call)
    this.all.push(follow)
    return { metadata: Promise.resolve(noMetadata), messages: follow.read(), done: follow.done }
  }

  get last(): FakeFollow {
    const last = this.all.at(-1)
    if (!last) throw new Error('nobody was followed')
    return last
  }
}

/** Takes each update at once, or when the test makes room. */
export class FakeViewer implements Viewer {
  readonly got: string[] = []
  error: KasError | undefined
  /** error with which `update` rejects */
  refusal: KasError | undefined
  #room: PromiseWithResolvers<void> | undefined

  async update(json: Uint8Array): Promise<void> {
    this.got.push(Buffer.from(json).toString())
    await this.#room?.promise
    if (this.refusal) throw this.refusal
  }

  ended(error: KasError): void {
    this.error = error
  }

  stall(): void {
    this.#room = Promise.withResolvers()
  }

  take(): void {
    const room = this.#room
    this.#room = undefined
    room?.resolve()
  }
}
