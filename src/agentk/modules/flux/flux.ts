import { withDeadline } from '../../../lib/deadline.ts'
import type { Logger } from '../../../lib/log.ts'
import { pause } from '../../../lib/pause.ts'
import type { AgentConfiguration } from '../../../proto/gen/agentcfg_pb.ts'
import type { ApiClient } from '../../cluster/api-client.ts'
import type { Term } from '../../election/terms.ts'
import type { AgentkHost } from '../../module.ts'
import { findFluxApis } from './flux-apis.ts'
import type { FluxMetrics } from './flux-metrics.ts'
import { type FluxTimes, FluxWork, type FluxWorkComponents } from './flux-work.ts'
import { HandledPushes } from './handled-pushes.ts'
import type { Apis } from './own-receiver.ts'
import { followPushes } from './push-stream.ts'
import { callWebhook, defaultWebhookUrl, readWebhookAddress, type WebhookAddress } from './webhook-call.ts'

export interface FluxComponents extends Pick<AgentkHost, 'kas' | 'configuration' | 'clock' | 'random'> {
  readonly api: Pick<ApiClient, 'json' | 'send'>
  readonly metrics: FluxMetrics
  readonly log: Logger
}

export interface FluxOptions extends FluxTimes {
  /** where Flux was not found the API server is asked again after so long, a fifth less or more. ms */
  readonly pollMs: number
}

export const defaultFlux: FluxOptions = { pollMs: 60_000, settleMs: 500, holdMs: 2000, watch: {}, webhooks: {} }

/** The API server is asked whether it has Flux; then it is asked again. ms */
const findTimeoutMs = 30_000
const defaultAddress = readWebhookAddress(defaultWebhookUrl) as WebhookAddress

/**
 * Has Flux fetch at once what was pushed to GitLab: follows Flux's GitRepositories of this GitLab, follows the pushes
 * to their projects, and calls the webhook of their Receivers. In the pod that leads.
 *
 * @see doc/flux.md
 */
export class Flux {
  readonly #components: FluxComponents
  readonly #options: FluxOptions
  /** through all terms of leading */
  readonly #handled = new HandledPushes()
  #address = defaultAddress
  /** why there is nothing to follow, as it stands in the log */
  #logged: 'absent' | 'failed' | undefined

  constructor(components: FluxComponents, options: Partial<FluxOptions> = {}) {
    this.#components = components
    this.#options = { ...defaultFlux, ...options }
    components.configuration.onChange((configuration) => this.#configure(configuration))
  }

  /** While `holds` says no, pushes that come wait: kas takes them as sent. */
  readonly lead = async ({ signal, holds }: Term): Promise<void> => {
    const { clock, random, configuration } = this.#components
    const { agentId, gitlabExternalUrl: externalUrl } = configuration.current // neither changes
    const { pollMs } = this.#options
    const components = { ...this.#components, ...this.#actions(), holds, handled: this.#handled }
    while (!signal.aborted) {
      const beganAt = clock.now()
      const apis = await this.#find(signal)
      if (apis) {
        await new FluxWork(components, { apis, agentId, externalUrl, times: this.#options }).run(signal)
        if (clock.now() - beganAt >= pollMs) continue // it was there: it may be there again
      }
      await pause(pollMs * (0.8 + 0.4 * random()), clock, signal)
    }
  }

  #configure({ flux }: AgentConfiguration): void {
    const address = readWebhookAddress(flux?.webhookReceiverUrl || defaultWebhookUrl)
    if (!address) {
      // not what it is: it may hold a password
      const allowed = 'http(s)://host[:port][/path] without a user, or the path of a service proxy'
      this.#components.log.error({ allowed }, 'flux.webhook_receiver_url cannot be used, the default is')
    }
    this.#address = address ?? defaultAddress
  }

  #actions(): Pick<FluxWorkComponents, 'follow' | 'call' | 'onOutcome'> {
    const { api, metrics } = this.#components
    return {
      follow: (projects, onPush, signal) => followPushes({ ...this.#components, onPush }, projects, signal),
      call: (webhookPath, signal) => callWebhook(api, { address: this.#address, webhookPath, signal }),
      onOutcome: metrics.outcome,
    }
  }

  /** @returns undefined: not there, or not now */
  async #find(signal: AbortSignal): Promise<Apis | undefined> {
    const { api, log } = this.#components
    try {
      const options = { ms: findTimeoutMs, signals: [signal] }
      const apis = await withDeadline(options, (timely) => findFluxApis(api, timely))
      if (apis) log.info({ apis: Object.values(apis) }, 'Flux is followed')
      else if (this.#logged !== 'absent') log.info('Flux is not installed, it is checked for from time to time')
      this.#logged = apis ? undefined : 'absent'
      return apis
    } catch (error) {
      if (signal.aborted) return undefined
      if (this.#logged !== 'failed') log.warn({ error }, 'Cannot ask the API server whether Flux is installed')
      this.#logged = 'failed'
      return undefined
    }
  }
}
