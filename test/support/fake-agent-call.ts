import type { AgentId, Metadata } from '../../src/call/call.ts'
import type { Agent } from '../../src/kas/agent.ts'
import type { AgentCall, AgentMethod } from '../../src/kas/agent-method.ts'
import { KasError } from '../../src/lib/errors.ts'

export const someAgent: Agent = { id: 42n as AgentId, name: 'prod', project: { id: 7n, path: 'platform/clusters' } }

export interface FakeAgentCallInit {
  readonly agent?: Agent
  readonly metadata?: Metadata
  /** messages of the agent before it half-closes */
  readonly messages?: Iterable<Uint8Array> | AsyncIterable<Uint8Array>
}

/** A call of an agent whose behaviour the test sets; its token is valid until `invalid` is set. */
export class FakeAgentCall implements AgentCall {
  readonly agent: Agent
  readonly token = 'token'
  readonly metadata: Metadata
  readonly messages: AsyncIterable<Uint8Array>
  readonly sent: Uint8Array[] = []
  readonly sentMetadata: Metadata[] = []
  /** spent units of work */
  spent = 0
  /** error that `stillValid` throws; undefined: it does not throw */
  invalid: KasError | undefined
  readonly #cut = new AbortController()
  readonly #retirement = new AbortController()
  readonly #directoryListeners = new Set<() => void>()
  #room: Promise<void> | undefined

  constructor({ agent = someAgent, metadata = {}, messages = [] }: FakeAgentCallInit = {}) {
    this.agent = agent
    this.metadata = metadata
    this.messages = (async function* () {
      yield* messages
    })()
  }

  spend(units: number): Promise<void> | undefined {
    this.spent += units
    return undefined
  }

  get signal(): AbortSignal {
    return this.#cut.signal
  }

  get retired(): AbortSignal {
    return this.#retirement.signal
  }

  sendMetadata(metadata: Metadata): void {
    this.sentMetadata.push(metadata)
  }

  send(message: Uint8Array): Promise<void> | undefined {
    this.sent.push(message)
    return this.#room
  }

  async stillValid(): Promise<void> {
    if (this.invalid) throw this.invalid
  }

  onDirectoryChange(listener: () => void): () => void {
    const own = () => listener()
    this.#directoryListeners.add(own)
    return () => this.#directoryListeners.delete(own)
  }

  /** Number of active listeners to the directory. */
  get directoryListeners(): number {
    return this.#directoryListeners.size
  }

  directoryChanged(): void {
    for (const listener of this.#directoryListeners) listener()
  }

  /** Stops the agent's reading until the returned function is called. */
  stall(): () => void {
    const { promise, resolve } = Promise.withResolvers<void>()
    this.#room = promise
    return () => {
      this.#room = undefined
      resolve()
    }
  }

  retire(): void {
    this.#retirement.abort()
  }

  cut(reason = new KasError({ code: 'CANCELLED' })): void {
    this.#cut.abort(reason)
  }

  /** @returns its result: 'OK', or the error that `serve` threw */
  async servedBy(serve: AgentMethod['serve']): Promise<unknown> {
    try {
      await serve(this)
      return 'OK'
    } catch (error) {
      return error
    }
  }
}
