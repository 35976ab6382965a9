import { Counter } from 'prom-client'
import { withDeadline } from '../../../lib/deadline.ts'
import type { Logger } from '../../../lib/log.ts'
import type { Registry } from '../../../lib/metrics.ts'
import { pause } from '../../../lib/pause.ts'
import type { AgentConfiguration } from '../../../proto/gen/agentcfg_pb.ts'
import type { Term } from '../../election/terms.ts'
import type { AgentkHost, AgentkModule } from '../../module.ts'
import { type Apis, findFluxApis } from './flux-apis.ts'
import { type FluxTimes, FluxWork, type FluxWorkComponents } from './flux-work.ts'
import { followPushes, HandledPushes } from './push-stream.ts'
import { callWebhook, defaultWebhookUrl, readWebhookAddress, type WebhookAddress } from './webhook-call.ts'

type Host = Pick<AgentkHost, 'api' | 'kas' | 'configuration' | 'clock' | 'random' | 'register' | 'log'>

export interface FluxOptions extends FluxTimes {
  /** pause until the API server is asked again for a missing Flux, up to a fifth less or more. ms */
  readonly pollMs: number
}

const defaultFlux: FluxOptions = { pollMs: 60_000, settleMs: 500, holdMs: 2000, watch: {}, webhooks: {} }

/** Timeout of one check for Flux; then the check is repeated. ms */
const findTimeoutMs = 30_000
const defaultAddress = readWebhookAddress(defaultWebhookUrl) as WebhookAddress

/**
 * Makes Flux fetch a push to GitLab at once. It follows Flux's GitRepositories of this GitLab, and the pushes to their
 * projects. For each push it calls the webhooks of their Receivers. It runs in the leading pod.
 *
 * @see doc/guide/flux.md
 */
export function createFlux(host: Host, options?: Partial<FluxOptions>): AgentkModule {
  const log = host.log('gitlab_flux')
  const flux = new Flux(host, log, { ...defaultFlux, ...options })
  return {
    lead: async (term) => {
      try {
        await flux.lead(term)
      } catch (error) {
        log.error({ error }, 'Flux is not followed any more')
      }
    },
  }
}

class Flux {
  readonly #host: Host
  readonly #log: Logger
  readonly #options: FluxOptions
  readonly #metrics: FluxMetrics
  /** kept across all terms of leading */
  readonly #handled = new HandledPushes()
  #address = defaultAddress
  /** reason, as logged last, that nothing is followed; undefined: none */
  #logged: 'absent' | 'failed' | undefined

  constructor(host: Host, log: Logger, options: FluxOptions) {
    this.#host = host
    this.#log = log
    this.#options = options
    this.#metrics = createFluxMetrics(host.register)
    host.configuration.onChange((configuration) => this.#configure(configuration))
  }

  /** Follows Flux for one term. While `holds` is false, pushes wait: for kas they are delivered. */
  async lead({ signal, holds }: Term): Promise<void> {
    const { api, clock, random, configuration } = this.#host
    const { agentId, gitlabExternalUrl: externalUrl } = configuration.current // both are constant
    const { pollMs } = this.#options
    const own = { api, clock, random, log: this.#log, holds, handled: this.#handled }
    const components = { ...own, ...this.#actions() }
    while (!signal.aborted) {
      const beganAt = clock.now()
      const apis = await this.#find(signal)
      if (apis) {
        await new FluxWork(components, { apis, agentId, externalUrl, times: this.#options }).run(signal)
        if (clock.now() - beganAt >= pollMs) continue // Flux was installed until now, and may be again
      }
      await pause(pollMs * (0.8 + 0.4 * random()), clock, signal)
    }
  }

  #configure({ flux }: AgentConfiguration): void {
    const address = readWebhookAddress(flux?.webhookReceiverUrl || defaultWebhookUrl)
    if (!address) {
      // the value itself is not logged: it may contain a password
      const allowed = 'http(s)://host[:port][/path] without a user, or the path of a service proxy'
      this.#log.error({ allowed }, 'flux.webhook_receiver_url cannot be used, the default is')
    }
    this.#address = address ?? defaultAddress
  }

  #actions(): Pick<FluxWorkComponents, 'follow' | 'call' | 'onOutcome'> {
    const { api, kas, clock, random } = this.#host
    const components = { kas, clock, random, log: this.#log }
    return {
      follow: (projects, onPush, signal) => followPushes({ ...components, onPush }, projects, signal),
      call: (webhookPath, signal) => callWebhook(api, { address: this.#address, webhookPath, signal }),
      onOutcome: this.#metrics.outcome,
    }
  }

  /** @returns undefined: Flux is not installed, or the API server cannot be asked now */
  async #find(signal: AbortSignal): Promise<Apis | undefined> {
    const { api } = this.#host
    const log = this.#log
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

export interface FluxMetrics {
  /** Counts a webhook that was called or given up. */
  outcome(outcome: 'called' | 'failed'): void
}

export function createFluxMetrics(register: Registry): FluxMetrics {
  const registers = [register]
  const counters = {
    called: new Counter({ name: 'agentk_flux_webhooks_total', help: 'Webhooks of Flux that were called', registers }),
    failed: new Counter({ name: 'agentk_flux_webhooks_failed_total', help: 'Webhooks that were given up', registers }),
  }
  return { outcome: (outcome) => counters[outcome].inc() }
}
