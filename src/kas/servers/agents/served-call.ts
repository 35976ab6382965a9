import type { AgentId, Metadata } from '../../../call/call.ts'
import { KasError } from '../../../lib/errors.ts'
import { linkedController } from '../../../lib/signals.ts'
import type { ServerStream } from '../../../proto/grpc/server-stream.ts'
import type { Agent } from '../../agent.ts'
import type { AgentCall } from '../../agent-method.ts'
import type { Directory } from '../../directory/directory.ts'
import type { AgentRate } from './limits/agent-rates.ts'

export interface ServedCallInit {
  readonly directory: Pick<Directory, 'agentByToken' | 'onChange'>
  readonly agent: Agent
  readonly token: string
  readonly retired: AbortSignal
  /** rate of the method */
  readonly rate: Pick<AgentRate, 'message' | 'work' | 'wait'>
}

/** A stream of an agent, as modules receive it: the rate delays messages until they are paid for. */
export class ServedCall implements AgentCall {
  readonly agent: Agent
  readonly token: string
  readonly retired: AbortSignal
  readonly messages: AsyncIterable<Uint8Array>
  readonly #stream: ServerStream
  readonly #directory: ServedCallInit['directory']
  readonly #rate: ServedCallInit['rate']
  /** aborts when the call is served; undefined: nothing has waited yet */
  #served: AbortController | undefined

  constructor(stream: ServerStream, { directory, agent, token, retired, rate }: ServedCallInit) {
    this.#stream = stream
    this.#directory = directory
    this.#rate = rate
    this.messages = new PaidMessages(stream.messages, (bytes) => this.#wait(rate.message(agent.id, bytes)))
    this.agent = agent
    this.token = token
    this.retired = retired
  }

  get metadata(): Metadata {
    return this.#stream.metadata
  }

  get signal(): AbortSignal {
    return this.#stream.signal
  }

  spend(units: number, atMostMs = Number.POSITIVE_INFINITY): Promise<void> | undefined {
    return this.#wait(Math.min(atMostMs, this.#rate.work(this.agent.id, units)))
  }

  /** Ends all waits: the method has returned. */
  served(): void {
    this.#served?.abort(new KasError({ code: 'CANCELLED', detail: 'the call is served' }))
  }

  sendMetadata(metadata: Metadata): void {
    this.#stream.sendMetadata(metadata)
  }

  send(message: Uint8Array): Promise<void> | undefined {
    return this.#stream.send(message)
  }

  async stillValid(): Promise<void> {
    try {
      const { id } = await this.#directory.agentByToken(this.token, this.signal)
      if (id !== this.agent.id) throw new KasError({ code: 'UNAUTHENTICATED' })
    } catch (error) {
      if (KasError.from(error).code !== 'DIRECTORY_UNAVAILABLE') throw error
    }
  }

  onDirectoryChange(listener: () => void): () => void {
    const ifOwn = (agentIds?: ReadonlySet<AgentId>) => {
      if (!agentIds || agentIds.has(this.agent.id)) listener()
    }
    return this.#directory.onChange(ifOwn)
  }

  #wait(ms: number): Promise<void> | undefined {
    if (ms === 0) return undefined
    this.#served ??= new AbortController()
    const ended = linkedController(this.#stream.signal, this.#served.signal)
    return this.#rate.wait(ms, ended.signal).finally(() => ended.dispose())
  }
}

/**
 * Messages of an agent, each delayed until it is paid for. Until then no further message is read: messages wait where
 * they are counted, and then the sender waits.
 */
class PaidMessages implements AsyncIterableIterator<Uint8Array> {
  readonly #source: AsyncIterator<Uint8Array>
  readonly #pay: (bytes: number) => Promise<void> | undefined

  /** @param pay - pays for a message of so many bytes; undefined: paid at once */
  constructor(source: AsyncIterable<Uint8Array>, pay: (bytes: number) => Promise<void> | undefined) {
    this.#source = source[Symbol.asyncIterator]()
    this.#pay = pay
  }

  async next(): Promise<IteratorResult<Uint8Array>> {
    const next = await this.#source.next()
    if (!next.done) await this.#pay(next.value.length)
    return next
  }

  async return(): Promise<IteratorResult<Uint8Array>> {
    return (await this.#source.return?.()) ?? { value: undefined, done: true }
  }

  [Symbol.asyncIterator](): this {
    return this
  }
}
