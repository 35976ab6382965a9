import type { AgentId, Metadata } from '../../../call/call.ts'
import { KasError } from '../../../lib/errors.ts'
import type { ServerStream } from '../../../proto/grpc/server-session.ts'
import type { Agent } from '../../agent.ts'
import type { Directory } from '../../directory/directory.ts'
import type { AgentCall } from '../../module.ts'

export interface ServedCallInit {
  readonly directory: Pick<Directory, 'agentByToken' | 'onChange'>
  readonly agent: Agent
  readonly token: string
  readonly retired: AbortSignal
}

/** A stream of an agent, as modules get it. */
export class ServedCall implements AgentCall {
  readonly agent: Agent
  readonly token: string
  readonly retired: AbortSignal
  readonly #stream: ServerStream
  readonly #directory: ServedCallInit['directory']

  constructor(stream: ServerStream, { directory, agent, token, retired }: ServedCallInit) {
    this.#stream = stream
    this.#directory = directory
    this.agent = agent
    this.token = token
    this.retired = retired
  }

  get metadata(): Metadata {
    return this.#stream.metadata
  }

  get messages(): AsyncIterable<Uint8Array> {
    return this.#stream.messages
  }

  get signal(): AbortSignal {
    return this.#stream.signal
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
    return this.#directory.onChange?.(ifOwn) ?? (() => undefined)
  }
}
