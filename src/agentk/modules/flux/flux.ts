import type { Metadata } from '../../../call/call.ts'
import type { Clock } from '../../../lib/clock.ts'
import { KasError } from '../../../lib/errors.ts'
import type { Logger } from '../../../lib/log.ts'
import { pause } from '../../../lib/pause.ts'
import type { Service } from '../../../lib/service.ts'
import type { AgentConfiguration } from '../../../proto/gen/agentcfg_pb.ts'
import type { ClientSession } from '../../../proto/grpc/client-session.ts'
import type { ApiClient } from '../../cluster/api-client.ts'
import { findFluxApis } from './flux-apis.ts'
import { type FluxTimes, FluxWork } from './flux-work.ts'
import { HandledPushes } from './handled-pushes.ts'
import type { Apis } from './own-receiver.ts'
import { followPushes } from './push-stream.ts'
import { defaultWebhookUrl, readWebhookAddress, type WebhookAddress } from './webhook-address.ts'
import { callWebhook } from './webhook-call.ts'

export interface FluxComponents {
  readonly client: Pick<ApiClient, 'json' | 'send'>
  readonly kas: { session(signal: AbortSignal): Promise<ClientSession> }
  readonly metadata: () => Metadata
  readonly election: {
    readonly identity: string
    /** empty: nobody, as far as is known */
    readonly leader: string
    holds(): boolean
    onChange(listener: () => void): void
  }
  readonly log: Logger
  readonly clock: Clock
  readonly random: () => number
}

export interface FluxOptions extends FluxTimes {
  /** where Flux was not found it is looked for again after so long, a fifth less or more. ms */
  readonly lookMs: number
}

export const defaultFlux: FluxOptions = { lookMs: 60_000, settleMs: 500, holdMs: 2000, watch: {}, webhooks: {} }

/** The API server is asked whether it has Flux; then it is asked again. ms */
const findTimeoutMs = 30_000
const defaultAddress = readWebhookAddress(defaultWebhookUrl) as WebhookAddress

/**
 * Has Flux fetch at once what was pushed to GitLab: follows Flux's GitRepositories of this GitLab, hears of pushes to
 * their projects, and calls the webhook of their Receivers. In the pod that leads.
 *
 * @see doc/flux.md
 */
export class Flux implements Service {
  readonly #components: FluxComponents
  readonly #options: FluxOptions
  /** through all terms of leading */
  readonly #handled = new HandledPushes()
  readonly #counts = { called: 0, failed: 0 }
  #identity: { agentId: bigint; externalUrl: string } | undefined
  #address = defaultAddress
  #isStarted = false
  #term: AbortController | undefined
  #running: Promise<void> = Promise.resolve()
  /** why there is nothing to follow, as the log has been told */
  #told: 'absent' | 'failed' | undefined

  constructor(components: FluxComponents, options: Partial<FluxOptions> = {}) {
    this.#components = components
    this.#options = { ...defaultFlux, ...options }
  }

  /** Webhooks that were called, and that were given up. */
  get counts(): { readonly called: number; readonly failed: number } {
    return this.#counts
  }

  /** Takes what the agent's configuration says; its first one begins the work. */
  configure({ agentId, gitlabExternalUrl: externalUrl, flux }: AgentConfiguration): void {
    this.#identity ??= { agentId, externalUrl } // neither changes (doc/reference/tunnel-protocol.md 1.5)
    const address = readWebhookAddress(flux?.webhookReceiverUrl || defaultWebhookUrl)
    if (!address) {
      // not what it is: it may hold a password
      const allowed = 'http(s)://host[:port][/path] without a user, or the path of a service proxy'
      this.#components.log.error({ allowed }, 'flux.webhook_receiver_url cannot be used, the default is')
    }
    this.#address = address ?? defaultAddress
    this.#look()
  }

  async start(): Promise<void> {
    this.#isStarted = true
    this.#components.election.onChange(() => this.#look())
    this.#look()
  }

  async stop(): Promise<void> {
    this.#isStarted = false
    this.#look()
    await this.#running
  }

  /** Begins or ends the work, as this pod leads or not. */
  #look(): void {
    const { log } = this.#components
    const identity = this.#identity
    const works = this.#isStarted && identity !== undefined && this.#mayLead()
    if (works === (this.#term !== undefined)) return
    this.#term?.abort(new KasError({ code: 'CANCELLED', detail: 'this pod does not lead any more' }))
    this.#term = undefined
    if (!works) return
    const term = new AbortController()
    this.#term = term
    this.#running = this.#running
      .then(() => this.#run(identity, term.signal))
      .catch((error: unknown) => log.error({ error }, 'Flux is not followed any more'))
  }

  /**
   * Whether this pod leads, or did and may again: it was frozen, or cannot renew, and has seen nobody else lead. What it
   * hears of then waits: kas takes it as told.
   */
  #mayLead(): boolean {
    const { election } = this.#components
    return election.holds() || (this.#term !== undefined && election.leader === election.identity)
  }

  async #run(identity: { agentId: bigint; externalUrl: string }, signal: AbortSignal): Promise<void> {
    const { clock, random, election } = this.#components
    const { lookMs } = this.#options
    while (!signal.aborted) {
      const beganAt = clock.now()
      const apis = await this.#find(signal)
      if (apis) {
        const components = {
          ...this.#components,
          ...this.#ways(),
          holds: () => election.holds(),
          handled: this.#handled,
        }
        await new FluxWork(components, { apis, ...identity, times: this.#options }).run(signal)
        if (clock.now() - beganAt >= lookMs) continue // it was there: it may be there again
      }
      await pause(lookMs * (0.8 + 0.4 * random()), clock, signal)
    }
  }

  #ways() {
    const { client } = this.#components
    return {
      follow: (
        projects: readonly string[],
        onPush: (project: string, id: bigint) => void,
        signal: AbortSignal,
      ): Promise<void> => followPushes({ ...this.#components, onPush }, projects, signal),
      call: (webhookPath: string, signal: AbortSignal) =>
        callWebhook(client, { address: this.#address, webhookPath, signal }),
      onOutcome: (outcome: 'called' | 'failed') => void this.#counts[outcome]++,
    }
  }

  /** @returns undefined: look again later */
  async #find(signal: AbortSignal): Promise<Apis | undefined> {
    const { client, log } = this.#components
    try {
      const timely = AbortSignal.any([signal, AbortSignal.timeout(findTimeoutMs)])
      const apis = await findFluxApis(client, timely)
      if (apis) log.info({ apis: Object.values(apis) }, 'Flux is followed')
      else if (this.#told !== 'absent') log.info('Flux is not installed, it is looked for from time to time')
      this.#told = apis ? undefined : 'absent'
      return apis
    } catch (error) {
      if (signal.aborted) return undefined
      if (this.#told !== 'failed') log.warn({ error }, 'Cannot ask the API server whether Flux is installed')
      this.#told = 'failed'
      return undefined
    }
  }
}
