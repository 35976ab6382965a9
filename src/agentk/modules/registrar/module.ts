import { create } from '@bufbuild/protobuf'
import { Advice } from '../../../lib/advice.ts'
import { Backoff } from '../../../lib/backoff.ts'
import type { Clock } from '../../../lib/clock.ts'
import { withDeadline } from '../../../lib/deadline.ts'
import { Code, KasError } from '../../../lib/errors.ts'
import type { Logger } from '../../../lib/log.ts'
import { pause } from '../../../lib/pause.ts'
import { positiveInt63 } from '../../../lib/positive-int63.ts'
import type { Service } from '../../../lib/service.ts'
import { linkedController } from '../../../lib/signals.ts'
import {
  AgentRegistrar,
  RegisterRequestSchema,
  RegisterResponseSchema,
  UnregisterRequestSchema,
  UnregisterResponseSchema,
} from '../../../proto/gen/agent_registrar_pb.ts'
import { type AgentMeta, AgentMetaSchema, KubernetesVersionSchema } from '../../../proto/gen/entity_pb.ts'
import { callUnary, methodPath } from '../../../proto/unary.ts'
import { type ApiClient, serverVersionPath } from '../../cluster/api-client.ts'
import { nextStepToApiServer } from '../../cluster/next-step.ts'
import type { AgentkHost, AgentkModule } from '../../module.ts'
import type { KasConnections } from '../../tunnels/kas-connections.ts'

type Host = Pick<AgentkHost, 'api' | 'kas' | 'self' | 'clock' | 'random' | 'log'>

/** Creates the module that registers this pod at kas. */
export function createRegistrar({ api, kas, self, clock, random, log }: Host): AgentkModule {
  const kubernetesVersion = (signal: AbortSignal) => askKubernetesVersion(api, signal)
  const components = { kas, kubernetesVersion, clock, random, log: log('agent_registrar') }
  return { services: [new Registrar(components, { meta: self.meta, server: api.access.server })] }
}

export const registerMethod = methodPath(AgentRegistrar.method.register)
export const unregisterMethod = methodPath(AgentRegistrar.method.unregister)

/** Values of upstream's agent (doc/reference/tunnel-protocol.md 1.6). */
const intervalMs = 300_000
/** Upstream's pauses after a failed call, in ms (doc/reference/tunnel-protocol.md 2.5). */
const backoffOptions = { firstMs: 10_000, maxMs: 300_000, factor: 2, jitter: 1, resetMs: 600_000 }
const callTimeoutMs = 20_000
/** Longest wait for kas while agentk stops. ms */
const unregisterTimeoutMs = 2000

interface KubernetesVersionInfo {
  readonly major: string
  readonly minor: string
  readonly gitVersion: string
  readonly platform: string
}

interface RegistrarComponents {
  readonly kas: Pick<KasConnections, 'connected' | 'session' | 'onSession' | 'metadata'>
  /** version of the cluster. @throws if the API server does not answer with one */
  readonly kubernetesVersion: (signal: AbortSignal) => Promise<KubernetesVersionInfo>
  readonly log: Logger
  readonly clock: Clock
  readonly random: () => number
}

/**
 * Registers this pod at kas every five minutes, and on each new connection, since it may reach another replica.
 * Unregisters the pod when agentk stops.
 */
export class Registrar implements Service {
  readonly #components: RegistrarComponents
  readonly #meta: AgentMeta
  readonly #server: URL
  readonly #podId = positiveInt63()
  readonly #stopping = new AbortController()
  readonly #advice = new Advice()
  #wake: (() => void) | undefined
  #running: Promise<void> | undefined
  /** kas has this pod in its list */
  #registered = false

  /**
   * @param options.meta - without kubernetes_version, which the registrar reads
   * @param options.server - the cluster's API server
   */
  constructor(components: RegistrarComponents, options: { meta: AgentMeta; server: URL }) {
    this.#components = components
    this.#meta = options.meta
    this.#server = options.server
  }

  async start(): Promise<void> {
    this.#components.kas.onSession(() => this.#wake?.())
    this.#running = this.#run()
  }

  /** Stops registering, and unregisters the pod if kas is connected. */
  async leave(patience?: AbortSignal): Promise<void> {
    this.#stopping.abort(new KasError({ code: 'CANCELLED', detail: 'agentk is stopping' }))
    await this.#running
    if (!this.#registered) return
    this.#registered = false
    if (this.#components.kas.connected) await this.#unregister(patience)
  }

  stop(patience?: AbortSignal): Promise<void> {
    return this.leave(patience)
  }

  async #run(): Promise<void> {
    const { log } = this.#components
    const { signal } = this.#stopping
    const backoff = new Backoff(this.#components, backoffOptions)
    while (!signal.aborted) {
      let waitMs = intervalMs
      try {
        await this.#register()
        this.#registered = true
      } catch (error) {
        if (signal.aborted) break
        log.error({ error }, failedText(error))
        waitMs = backoff.next()
      }
      await this.#sleep(waitMs)
    }
  }

  async #register(): Promise<void> {
    const { kas } = this.#components
    const { signal } = this.#stopping
    const agentMeta = await this.#fullMeta()
    const session = await kas.session(signal)
    const request = create(RegisterRequestSchema, { agentMeta, podId: this.#podId })
    const options = { method: registerMethod, metadata: kas.metadata(), signal, timeoutMs: callTimeoutMs }
    await callUnary(session, RegisterRequestSchema, RegisterResponseSchema, request, options)
  }

  async #unregister(patience?: AbortSignal): Promise<void> {
    const { kas, log } = this.#components
    const ask = async (signal: AbortSignal) => {
      const session = await kas.session(signal)
      const request = create(UnregisterRequestSchema, { agentMeta: this.#meta, podId: this.#podId })
      const options = { method: unregisterMethod, metadata: kas.metadata(), signal }
      await callUnary(session, UnregisterRequestSchema, UnregisterResponseSchema, request, options)
    }
    try {
      await withDeadline({ ms: unregisterTimeoutMs, signals: [patience] }, ask)
    } catch (error) {
      // kas before 17.4 does not know the method
      if (KasError.from(error).grpcCode !== Code.UNIMPLEMENTED) log.warn({ error }, 'Failed to unregister agent pod')
    }
  }

  /** Returns the agent's data with the cluster's version; without it if the API server does not answer. */
  async #fullMeta(): Promise<AgentMeta> {
    const { kubernetesVersion, log } = this.#components
    try {
      const { major, minor, gitVersion, platform } = await kubernetesVersion(this.#stopping.signal)
      this.#advice.forget()
      const version = create(KubernetesVersionSchema, { major, minor, gitVersion, platform })
      return create(AgentMetaSchema, { ...this.#meta, kubernetesVersion: version })
    } catch (error) {
      const step = this.#advice.fields(nextStepToApiServer(error, this.#server))
      if (!this.#stopping.signal.aborted) log.warn({ error, ...step }, 'Cannot read the version of the cluster')
      return create(AgentMetaSchema, { ...this.#meta, kubernetesVersion: create(KubernetesVersionSchema) })
    }
  }

  /** Waits until the time has passed, a new connection exists, or agentk stops. */
  async #sleep(ms: number): Promise<void> {
    const woken = linkedController(this.#stopping.signal)
    this.#wake = () => woken.abort()
    await pause(ms, this.#components.clock, woken.signal)
    this.#wake = undefined
    woken.dispose()
  }
}

/** Reads the version of the cluster. @throws KasError UNREACHABLE when the API server does not answer with a version */
export async function askKubernetesVersion(client: ApiClient, signal: AbortSignal): Promise<KubernetesVersionInfo> {
  const { status, body } = await client.json('GET', serverVersionPath, undefined, signal)
  if (status !== 200 || typeof body !== 'object' || !body) {
    throw new KasError({ code: 'UNREACHABLE', detail: `/version was answered with ${status}`, httpStatus: status })
  }
  const { major = '', minor = '', gitVersion = '', platform = '' } = body as Partial<KubernetesVersionInfo>
  return { major, minor, gitVersion, platform }
}

/** Names the version only if it can be the cause. The line `GetConfiguration failed` has the advice for a token. */
function failedText(error: unknown): string {
  const { grpcCode } = KasError.from(error)
  const isRefused = grpcCode === Code.UNAUTHENTICATED || grpcCode === Code.PERMISSION_DENIED
  const advice = isRefused ? '' : '. Please make sure the agent version matches the server version'
  return `Failed to register agent pod${advice}`
}
