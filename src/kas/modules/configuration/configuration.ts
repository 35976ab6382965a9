import { create, fromBinary, toBinary } from '@bufbuild/protobuf'
import { type Clock, systemClock } from '../../../lib/clock.ts'
import { KasError } from '../../../lib/errors.ts'
import type { Logger } from '../../../lib/log.ts'
import { abortable, linkedController } from '../../../lib/signals.ts'
import type { Metadata } from '../../../proto/call.ts'
import { fieldBytes } from '../../../proto/field-bytes.ts'
import { ConfigurationRequestSchema, ConfigurationResponseSchema } from '../../../proto/gen/agent_configuration_pb.ts'
import { AgentConfigurationSchema } from '../../../proto/gen/agentcfg_pb.ts'
import type { Agent } from '../../directory/directory.ts'
import type { AgentConfiguration, AgentConfigurations } from '../../repositories/agent-configurations.ts'

/** `/package.Service/Method` that this module serves on 8150. */
export const getConfigurationMethod = '/gitlab.agent.agent_configuration.rpc.AgentConfiguration/GetConfiguration'

/** What the module needs of a call; a ServerStream has it. */
export interface ConfigurationStream {
  readonly metadata: Metadata
  readonly messages: AsyncIterable<Uint8Array>
  readonly signal: AbortSignal
  sendMetadata(metadata: Metadata): void
  send(message: Uint8Array): Promise<void> | undefined
}

export interface ConfigurationComponents<Stream extends ConfigurationStream> {
  readonly configurations: Pick<AgentConfigurations, 'newest' | 'onChange'>
  /** Asks anew whose call this is: throws a KasError once the token is void. */
  authenticate(stream: Stream): Promise<Agent>
  /** Aborts when the stream should end with OK, for the agent to open it on a newer connection. */
  retired(stream: Stream): AbortSignal
  /** Calls `listener` when the token may have become void. */
  onDirectoryChange?(listener: () => void): () => void
  /** An agent before 16.5 registers by this call alone: kept for as long as the stream runs. */
  connected?(agent: Agent, meta: Uint8Array, stream: Stream): () => void
  readonly log: Logger
  readonly clock?: Clock
}

export interface ConfigurationOptions {
  /** upstream's gitlab.external_url as it stands there; empty if there is none */
  readonly gitlabExternalUrl: string
  /** upstream's agent.configuration.poll_period: the longest that a void token goes unnoticed, in ms */
  readonly pollMs: number
  /** our agentk then sends PINGs this often, in ms */
  readonly pingIntervalMs?: number
}

const defaultPingIntervalMs = 5000

/**
 * Sends an agent its configuration, now and after each commit on the default branch, until the connection retires.
 *
 * @see wire-protocol 2.9
 */
export function configurationHandler<Stream extends ConfigurationStream>(
  components: ConfigurationComponents<Stream>,
  options: ConfigurationOptions,
): (agent: Agent, stream: Stream) => Promise<void> {
  return async (agent, stream) => {
    stream.sendMetadata({ 'kas-ping-interval-ms': [String(options.pingIntervalMs ?? defaultPingIntervalMs)] })
    const request = await readRequest(stream)
    const disconnect = request.meta && components.connected?.(agent, request.meta, stream)
    try {
      await new ConfigurationPush(components, options, { agent, stream, sent: request.commitId }).run()
    } finally {
      disconnect?.()
    }
  }
}

async function readRequest(stream: ConfigurationStream): Promise<{ commitId: string; meta?: Uint8Array | undefined }> {
  for await (const bytes of stream.messages) {
    try {
      const { commitId, skipRegister } = fromBinary(ConfigurationRequestSchema, bytes)
      return { commitId, meta: skipRegister ? undefined : fieldBytes(bytes, 2) }
    } catch (cause) {
      throw new KasError({ code: 'INVALID_MESSAGE', detail: 'malformed ConfigurationRequest' }, { cause })
    }
  }
  throw new KasError({ code: 'INVALID_MESSAGE', detail: 'no request message' })
}

/** One running stream. */
class ConfigurationPush<Stream extends ConfigurationStream> {
  readonly #components: ConfigurationComponents<Stream>
  readonly #options: ConfigurationOptions
  readonly #agent: Agent
  readonly #stream: Stream
  /** the commit that the agent has */
  #sent: string
  #news = Promise.withResolvers<void>()

  constructor(
    components: ConfigurationComponents<Stream>,
    options: ConfigurationOptions,
    call: { agent: Agent; stream: Stream; sent: string },
  ) {
    this.#components = components
    this.#options = options
    this.#agent = call.agent
    this.#stream = call.stream
    this.#sent = call.sent
  }

  async run(): Promise<void> {
    const { configurations, onDirectoryChange, retired } = this.#components
    const wake = () => this.#news.resolve()
    const detachConfiguration = configurations.onChange(this.#agent, wake)
    const detachDirectory = onDirectoryChange?.(wake)
    const retirement = retired(this.#stream)
    const ended = linkedController(this.#stream.signal, retirement)
    try {
      for (;;) await this.#round(ended.signal)
    } catch (error) {
      if (!retirement.aborted || this.#stream.signal.aborted) throw error
    } finally {
      ended.dispose()
      detachConfiguration()
      detachDirectory?.()
    }
  }

  /** Sends what is new, then waits until something may be. */
  async #round(signal: AbortSignal): Promise<void> {
    this.#news = Promise.withResolvers() // before looking, so that nothing falls between
    const clock = this.#components.clock ?? systemClock
    const cancel = clock.after(this.#options.pollMs, () => this.#news.resolve())
    try {
      await abortable(this.#checkToken(), signal)
      const newest = await this.#newest(signal)
      if (newest && newest.commit !== this.#sent) {
        await this.#send(newest)
        this.#sent = newest.commit
      }
      await abortable(this.#news.promise, signal)
    } finally {
      cancel()
    }
  }

  async #checkToken(): Promise<void> {
    try {
      const { id } = await this.#components.authenticate(this.#stream)
      if (id !== this.#agent.id) throw new KasError({ code: 'UNAUTHENTICATED' })
    } catch (error) {
      if (KasError.from(error).code !== 'DIRECTORY_UNAVAILABLE') throw error
    }
  }

  /** `undefined` while the repository is empty or cannot be read: the stream waits then. */
  async #newest(signal: AbortSignal): Promise<AgentConfiguration | undefined> {
    try {
      return await this.#components.configurations.newest(this.#agent, signal)
    } catch (error) {
      if (KasError.from(error).code !== 'REPOSITORY_FAILED') throw error
      return undefined
    }
  }

  async #send({ commit, configuration }: AgentConfiguration): Promise<void> {
    const { id, project } = this.#agent
    const { $typeName: _, $unknown: __, userAccess: ___, ...file } = configuration.file
    const response = create(ConfigurationResponseSchema, {
      commitId: commit,
      configuration: create(AgentConfigurationSchema, {
        ...file,
        agentId: id,
        projectId: project.id,
        projectPath: project.path,
        gitlabExternalUrl: this.#options.gitlabExternalUrl,
      }),
    })
    await this.#stream.send(toBinary(ConfigurationResponseSchema, response))
    const fields = { agent_id: String(id), project_id: String(project.id), commit_id: commit }
    this.#components.log.debug({ mod_name: 'configuration', ...fields }, 'Configuration sent')
  }
}
