import { create, toBinary } from '@bufbuild/protobuf'
import type { Clock } from '../../../lib/clock.ts'
import { warningTexts } from '../../../lib/config.ts'
import { KasError } from '../../../lib/errors.ts'
import type { Logger } from '../../../lib/log.ts'
import { abortable, linkedController } from '../../../lib/signals.ts'
import { decodeMessage } from '../../../proto/decode.ts'
import {
  AgentConfiguration as AgentConfigurationService,
  ConfigurationRequestSchema,
  ConfigurationResponseSchema,
} from '../../../proto/gen/agent_configuration_pb.ts'
import { AgentConfigurationSchema } from '../../../proto/gen/agentcfg_pb.ts'
import { hasFeature, writeHints } from '../../../proto/placement.ts'
import { methodPath } from '../../../proto/unary.ts'
import { fieldBytes } from '../../../proto/wire/wire.ts'
import type { Agent } from '../../agent.ts'
import type { AgentConfiguration } from '../../agent-config/agent-config-reader.ts'
import type { AgentCall } from '../../agent-method.ts'
import type { KasHost } from '../../module.ts'

/** `/package.Service/Method` that this module serves on 8150. */
export const getConfigurationMethod = methodPath(AgentConfigurationService.method.getConfiguration)

export interface ConfigurationComponents {
  readonly agentConfig: Pick<KasHost['agentConfig'], 'newest' | 'onChange'>
  /** Registers an agent before 16.5, which registers by this call alone, until the returned function is called. */
  register(agent: Agent, meta: Uint8Array): () => void
  readonly log: Logger
  readonly clock: Clock
}

export interface ConfigurationOptions {
  /** upstream's gitlab.external_url, unchanged; empty if there is none */
  readonly gitlabExternalUrl: string
  /** upstream's agent.configuration.poll_period: the longest that an invalid token goes unnoticed, in ms */
  readonly pollMs: number
  /** period of agentk's PINGs, in ms */
  readonly pingIntervalMs?: number
}

const defaultPingIntervalMs = 5000

/**
 * Sends an agent its configuration, now and after each commit on the default branch, until the connection retires.
 *
 * @see doc/reference/tunnel-protocol.md 2.9
 */
export function getConfiguration(
  components: ConfigurationComponents,
  options: ConfigurationOptions,
): (call: AgentCall) => Promise<void> {
  const responses = new Responses(options.gitlabExternalUrl)
  return (call) => new ConfigurationPush(components, options, { call, responses }).run()
}

interface ConfigurationQuestion {
  /** commit of the agent's current configuration */
  readonly commitId: string
  /** meta of an agent that registers by this request */
  readonly meta: Uint8Array | undefined
}

async function readRequest(call: AgentCall): Promise<ConfigurationQuestion> {
  for await (const bytes of call.messages) {
    const { commitId, skipRegister } = decodeMessage(ConfigurationRequestSchema, bytes)
    return { commitId, meta: skipRegister ? undefined : fieldBytes(bytes, 2) }
  }
  throw new KasError({ code: 'INVALID_MESSAGE', detail: 'no request message' })
}

/** Responses, each encoded once: many streams of an agent wait for the same one, which may be large. */
class Responses {
  readonly #gitlabExternalUrl: string
  /** by configuration, then by the features that the asking pod lacks */
  readonly #encoded = new WeakMap<
    AgentConfiguration,
    Map<string, { readonly agent: Agent; readonly bytes: Uint8Array }>
  >()

  constructor(gitlabExternalUrl: string) {
    this.#gitlabExternalUrl = gitlabExternalUrl
  }

  /** @param has - features of the pod that asks */
  of(agent: Agent, newest: AgentConfiguration, has: (feature: string) => boolean): Uint8Array {
    const blocks = Array.from(newest.blocks ?? [], ([key, { json, older }]) => {
      return older && !has(older.feature) ? { key, json: older.json, lacks: older.feature } : { key, json, lacks: '' }
    })
    const lacks = blocks.map((one) => one.lacks).join()
    const encoded = this.#encoded.get(newest) ?? new Map()
    this.#encoded.set(newest, encoded)
    const known = encoded.get(lacks)
    if (known && known.agent.id === agent.id && known.agent.project.path === agent.project.path) return known.bytes
    const bytes = this.#encode(agent, newest, blocks)
    encoded.set(lacks, { agent, bytes })
    return bytes
  }

  #encode(
    { id, project }: Agent,
    { commit, configuration }: AgentConfiguration,
    blocks: readonly { readonly key: string; readonly json: string }[],
  ): Uint8Array {
    const { $typeName: _, $unknown: __, userAccess: ___, ...file } = configuration.file
    const response = create(ConfigurationResponseSchema, {
      commitId: commit,
      warning: warningTexts(configuration.warnings),
      configuration: create(AgentConfigurationSchema, {
        ...file,
        agentId: id,
        projectId: project.id,
        projectPath: project.path,
        gitlabExternalUrl: this.#gitlabExternalUrl,
        moduleBlock: Object.fromEntries(blocks.map(({ key, json }) => [key, Buffer.from(json)])),
      }),
    })
    return toBinary(ConfigurationResponseSchema, response)
  }
}

/** One running stream. */
class ConfigurationPush {
  readonly #components: ConfigurationComponents
  readonly #options: ConfigurationOptions
  readonly #call: AgentCall
  readonly #responses: Responses
  /** the commit that the agent has */
  #sent = ''
  #changed = Promise.withResolvers<void>()

  constructor(
    components: ConfigurationComponents,
    options: ConfigurationOptions,
    { call, responses }: { call: AgentCall; responses: Responses },
  ) {
    this.#components = components
    this.#options = options
    this.#call = call
    this.#responses = responses
  }

  /** Runs the stream. Between two rounds it waits for only one promise: there is one stream per agent. */
  async run(): Promise<void> {
    const { pingIntervalMs = defaultPingIntervalMs, pollMs } = this.#options
    this.#call.sendMetadata(writeHints({ pingIntervalMs }))
    const detach = this.#follow(await readRequest(this.#call))
    try {
      while (!this.#hasEnded) {
        this.#changed = Promise.withResolvers() // first, so that no change is missed
        const cancel = this.#components.clock.after(pollMs, this.#changed.resolve)
        try {
          await this.#sendNew()
          await this.#changed.promise
        } finally {
          cancel()
        }
      }
      this.#call.signal.throwIfAborted()
    } finally {
      detach()
    }
  }

  /** True if the asking pod has the feature. */
  readonly #has = (feature: string): boolean => hasFeature(this.#call.metadata, feature)

  get #hasEnded(): boolean {
    return this.#call.signal.aborted || this.#call.retired.aborted
  }

  /** Resolves `#changed` once there may be a change, until the returned function is called. */
  #follow({ commitId, meta }: ConfigurationQuestion): () => void {
    const { agent, signal, retired } = this.#call
    const { agentConfig, register } = this.#components
    this.#sent = commitId
    const wake = () => this.#changed.resolve()
    const unregister = meta && register(agent, meta)
    const detachConfiguration = agentConfig.onChange(agent, wake, this.#has)
    const detachDirectory = this.#call.onDirectoryChange(wake)
    signal.addEventListener('abort', wake, { once: true })
    retired.addEventListener('abort', wake, { once: true })
    return () => {
      signal.removeEventListener('abort', wake)
      retired.removeEventListener('abort', wake)
      detachDirectory()
      detachConfiguration()
      unregister?.()
    }
  }

  /** Sends a new configuration; a retired connection ends the wait. */
  async #sendNew(): Promise<void> {
    const { signal, retired } = this.#call
    const ended = linkedController(signal, retired)
    try {
      await abortable(this.#call.stillValid(), ended.signal)
      const newest = await this.#newest(ended.signal)
      if (!newest || newest.commit === this.#sent) return
      await this.#send(newest)
      this.#sent = newest.commit
    } catch (error) {
      if (!retired.aborted || signal.aborted) throw error
    } finally {
      ended.dispose()
    }
  }

  /** `undefined` while the repository is empty or cannot be read: then the stream waits. */
  async #newest(signal: AbortSignal): Promise<AgentConfiguration | undefined> {
    try {
      return await this.#components.agentConfig.newest(this.#call.agent, signal, this.#sent === '')
    } catch (error) {
      if (KasError.from(error).code !== 'REPOSITORY_FAILED') throw error
      return undefined
    }
  }

  async #send(newest: AgentConfiguration): Promise<void> {
    const { agent } = this.#call
    await this.#call.send(this.#responses.of(agent, newest, this.#has))
    const fields = { agent_id: String(agent.id), project_id: String(agent.project.id), commit_id: newest.commit }
    this.#components.log.debug({ mod_name: 'configuration', ...fields }, 'Configuration sent')
  }
}
