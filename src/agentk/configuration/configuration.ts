import { create, toBinary } from '@bufbuild/protobuf'
import { noMetadata } from '../../call/call.ts'
import { Advice } from '../../lib/advice.ts'
import type { Clock } from '../../lib/clock.ts'
import { errorText, KasError } from '../../lib/errors.ts'
import { Listeners } from '../../lib/listeners.ts'
import type { Logger } from '../../lib/log.ts'
import type { Service } from '../../lib/service.ts'
import { decodeMessage } from '../../proto/decode.ts'
import {
  AgentConfiguration as AgentConfigurationService,
  ConfigurationRequestSchema,
  type ConfigurationResponse,
  ConfigurationResponseSchema,
} from '../../proto/gen/agent_configuration_pb.ts'
import type { AgentConfiguration } from '../../proto/gen/agentcfg_pb.ts'
import { type AgentMeta, AgentMetaSchema, KubernetesVersionSchema } from '../../proto/gen/entity_pb.ts'
import type { ClientSession, ClientStream } from '../../proto/grpc/client-session.ts'
import { readHints, writeFeatures } from '../../proto/placement.ts'
import { methodPath } from '../../proto/unary.ts'
import type { KasConnections } from '../tunnels/kas-connections.ts'
import { type KeptStream, keepOpen, type StreamEnd } from '../tunnels/keep-open.ts'
import { nextStepOfRefusal } from '../tunnels/next-step.ts'

export const getConfigurationMethod = methodPath(AgentConfigurationService.method.getConfiguration)

/** Limit of logged warnings for one configuration; kas itself sends fewer. */
const maxWarnings = 100

export interface ConfigurationComponents {
  readonly kas: Pick<KasConnections, 'session' | 'pingEvery' | 'metadata'>
  readonly log: Logger
  readonly clock: Clock
  readonly random: () => number
}

/**
 * Keeps the configuration stream open and passes each configuration on (doc/reference/tunnel-protocol.md 1.5 and 2.9).
 * The agent's id and GitLab's address keep their first values: a configuration that changes them is logged and dropped.
 */
export class Configuration implements Service {
  readonly #components: ConfigurationComponents
  readonly #meta: AgentMeta
  readonly #features: () => readonly string[]
  readonly #listeners = new Listeners<AgentConfiguration>()
  readonly #stopping = new AbortController()
  readonly #advice = new Advice()
  #current: AgentConfiguration | undefined
  #commitId = ''
  #running: Promise<void> | undefined

  /**
   * @param options.meta - without kubernetes_version, which is sent empty
   * @param options.features - what kas has to know before it sends a configuration: called at the start
   */
  constructor(
    components: ConfigurationComponents,
    options: { readonly meta: AgentMeta; readonly features?: () => readonly string[] },
  ) {
    this.#components = components
    this.#features = options.features ?? (() => [])
    this.#meta = create(AgentMetaSchema, { ...options.meta, kubernetesVersion: create(KubernetesVersionSchema) })
  }

  /** The configuration that applies now. @throws Error before the first one */
  get current(): AgentConfiguration {
    if (!this.#current) throw new Error('no configuration has come yet')
    return this.#current
  }

  /** Calls `listener` with each configuration that is applied. */
  onChange(listener: (configuration: AgentConfiguration) => void): void {
    this.#listeners.add(listener)
  }

  /**
   * Returns a reader for the block that a module owns in the agent's configuration file, as it is now. The reader
   * returns undefined if there is no block, or if `read` rejects it; the log says why.
   *
   * @param read - checks the JSON value; throws an error that says what is wrong
   */
  block<T>(key: string, read: (json: unknown) => T): () => T | undefined {
    let value: T | undefined
    this.onChange(({ moduleBlock }) => {
      value = this.#readBlock(key, moduleBlock[key], read)
    })
    return () => value
  }

  async start(): Promise<void> {
    const { log } = this.#components
    const kept: KeptStream = {
      method: getConfigurationMethod,
      metadata: writeFeatures(...this.#features()),
      read: (stream, session) => this.#follow(stream, session),
      refused: (error) =>
        log.error({ error, ...this.#advice.fields(nextStepOfRefusal(error)) }, 'GetConfiguration failed'),
      failed: (error) => log.error({ error }, 'The configuration stream failed'),
    }
    this.#running = keepOpen(this.#components, kept, this.#stopping.signal)
  }

  async stop(): Promise<void> {
    this.#stopping.abort(new KasError({ code: 'CANCELLED', detail: 'agentk is stopping' }))
    await this.#running
  }

  async #follow(stream: ClientStream, session: ClientSession): Promise<StreamEnd> {
    const { kas } = this.#components
    const request = { commitId: this.#commitId, agentMeta: this.#meta, skipRegister: true }
    void stream.send(toBinary(ConfigurationRequestSchema, create(ConfigurationRequestSchema, request)))
    stream.end()
    void stream.metadata.then((received) => {
      const { pingIntervalMs } = readHints(received ?? noMetadata)
      if (pingIntervalMs !== undefined) kas.pingEvery(session, pingIntervalMs)
    })
    for await (const message of stream.messages) {
      const invalid = this.#accept(message)
      if (invalid) return invalid
    }
    return 'ended'
  }

  #accept(message: Uint8Array): KasError | undefined {
    let response: ConfigurationResponse
    try {
      response = decodeMessage(ConfigurationResponseSchema, message)
    } catch (error) {
      return KasError.from(error)
    }
    const { configuration, commitId, warning: warnings } = response
    if (!configuration || !commitId) {
      const detail = 'invalid server response: configuration and commit_id are required'
      return new KasError({ code: 'INVALID_MESSAGE', detail })
    }
    if (this.#keepsIdentity(configuration)) {
      this.#commitId = commitId
      this.#advice.forget()
      for (const warning of warnings.slice(0, maxWarnings)) {
        this.#components.log.warn(
          { commit_id: commitId, warning },
          "The agent's configuration file has keys without effect",
        )
      }
      this.#current = configuration
      this.#listeners.notify(configuration)
    }
    return undefined
  }

  #readBlock<T>(key: string, bytes: Uint8Array | undefined, read: (json: unknown) => T): T | undefined {
    if (!bytes) return undefined
    try {
      return read(JSON.parse(Buffer.from(bytes).toString()))
    } catch (error) {
      this.#components.log.error(
        { key, reason: errorText(error) },
        "A block of the agent's configuration file cannot be used",
      )
      return undefined
    }
  }

  #keepsIdentity({ agentId, gitlabExternalUrl: externalUrl }: AgentConfiguration): boolean {
    const known = this.#current
    if (!known || (known.agentId === agentId && known.gitlabExternalUrl === externalUrl)) return true
    const fields = {
      agent_id: String(agentId),
      known_agent_id: String(known.agentId),
      gitlab_external_url: externalUrl,
    }
    this.#components.log.error(fields, 'Dropped a configuration: the agent id or the address of GitLab has changed')
    return false
  }
}
