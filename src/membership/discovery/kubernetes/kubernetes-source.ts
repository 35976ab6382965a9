import { pause } from '../../../lib/pause.ts'
import { linkedController } from '../../../lib/signals.ts'
import { jittered, type RetryOptions, retryPauseMs } from '../retry.ts'
import { RunningSource, type SourceComponents } from '../running-source.ts'
import { AddressWatch, type Kind } from './address-watch.ts'
import { ClusterClient } from './cluster-client.ts'
import { failureText, isDenied, retryAfterMs } from './failure.ts'

export interface KubernetesDiscoveryOptions extends RetryOptions {
  readonly services: readonly string[]
  /** absent: that of the pod, or of the kubeconfig's context */
  readonly namespace?: string
  /** for a Service without a port `gossip` */
  readonly otherPort: number
  /** path of a file, for use outside of a pod */
  readonly kubeconfig?: string
  /** bound of one list */
  readonly requestTimeoutMs: number
  /** interval at which all is listed and watched again, on a new connection, whatever the watch reports */
  readonly relistMs: number
  /** age at which a watch counts as healthy: the pause after it is the first again */
  readonly healthyMs: number
  /** interval at which denied EndpointSlices are tried again */
  readonly slicesRetryMs: number
  /** longest pause before a watch that the server ended is opened again */
  readonly maxReopenMs: number
}

export const kubernetesDefaults = {
  firstRetryMs: 500,
  /** longest pause after a failure, also if the server asks for more */
  maxRetryMs: 15_000,
  requestTimeoutMs: 10_000,
  relistMs: 30_000,
  healthyMs: 10_000,
  slicesRetryMs: 300_000,
  maxReopenMs: 5_000,
}

/**
 * Addresses behind Services, from their EndpointSlices, or from their Endpoints if the former are denied. Addresses
 * that are not ready count, and terminating ones until they are removed. A watch that ends or hangs is replaced, and
 * the last addresses stay until the new one has answered.
 *
 * @see doc/decisions/0008-an-informer-and-its-supervisor.md
 */
export class KubernetesDiscovery extends RunningSource {
  readonly name = 'kubernetes'
  readonly #components: SourceComponents
  readonly #options: KubernetesDiscoveryOptions
  #watch: AddressWatch | undefined
  /** kind of the last watch */
  #kind: Kind = 'EndpointSlices'
  /** set while denied EndpointSlices are not tried; ends that time */
  #slicesAgain: (() => void) | undefined

  constructor(components: SourceComponents, options: KubernetesDiscoveryOptions) {
    super(components)
    this.#components = components
    this.#options = options
  }

  override async stop(): Promise<void> {
    await super.stop()
    this.#trySlices()
  }

  protected async run(asked: () => void, signal: AbortSignal): Promise<void> {
    const { clock, random } = this.#components
    const { maxRetryMs } = this.#options
    let failures = 0
    while (!signal.aborted) {
      const { failure, wasHealthy } = await this.#watchOnce(asked, signal)
      if (signal.aborted) break
      if (failure === undefined) {
        failures = 0
        continue
      }
      this.known.failed(failureText(failure))
      asked()
      failures = wasHealthy ? 1 : failures + 1
      const askedToWaitMs = Math.min(retryAfterMs(failure), maxRetryMs)
      await pause(Math.max(retryPauseMs(failures, this.#options, random), askedToWaitMs), clock, signal)
    }
    await this.#watch?.close()
  }

  /** Replaces the watch, and waits until it is due for the next replacement (no failure) or fails. */
  async #watchOnce(asked: () => void, signal: AbortSignal): Promise<{ failure?: unknown; wasHealthy: boolean }> {
    const { clock, random } = this.#components
    const { relistMs, healthyMs } = this.#options
    let watch: AddressWatch
    try {
      watch = await this.#begin(signal)
    } catch (failure) {
      return { failure, wasHealthy: false }
    }
    asked()
    let wasHealthy = false
    const cancelHealthy = clock.after(healthyMs, () => {
      wasHealthy = true
    })
    const due = linkedController(signal)
    const failure = await Promise.race([pause(jittered(relistMs, random), clock, due.signal), watch.lost])
    due.abort()
    due.dispose()
    cancelHealthy()
    if (failure === undefined) return { wasHealthy }
    void watch.close()
    if (watch.kind === 'EndpointSlices' && isDenied(failure)) this.#avoidSlices()
    return { failure, wasHealthy }
  }

  async #begin(signal: AbortSignal): Promise<AddressWatch> {
    let denied: unknown
    if (!this.#slicesAgain) {
      try {
        return await this.#open('EndpointSlices', signal)
      } catch (error) {
        if (!isDenied(error) || signal.aborted) throw error
        denied = error
        this.#avoidSlices()
      }
    }
    try {
      return await this.#open('Endpoints', signal)
    } catch (error) {
      if (!isDenied(error)) throw error
      this.#trySlices() // neither is allowed: the next attempt tries both
      if (denied === undefined) throw error
      throw new Error(`${failureText(denied)}; ${failureText(error)}`, { cause: error })
    }
  }

  #avoidSlices(): void {
    this.#slicesAgain?.()
    this.#slicesAgain = this.#components.clock.after(this.#options.slicesRetryMs, () => this.#trySlices())
  }

  #trySlices(): void {
    this.#slicesAgain?.()
    this.#slicesAgain = undefined
  }

  async #open(kind: Kind, signal: AbortSignal): Promise<AddressWatch> {
    const client = await ClusterClient.open(this.#options)
    const close = () => void client.close()
    signal.addEventListener('abort', close, { once: true })
    if (signal.aborted) close()
    const namespace = this.#options.namespace ?? client.namespace
    const onChange = () => {
      if (this.#watch === watch) this.known.answered(watch.addresses())
    }
    const watch = new AddressWatch({ ...this.#components, client, onChange }, { ...this.#options, kind, namespace })
    try {
      await watch.start()
      const addresses = watch.addresses()
      this.#checkFallback(kind, addresses)
      this.#take(watch, addresses)
      return watch
    } catch (error) {
      close()
      throw error
    } finally {
      signal.removeEventListener('abort', close)
    }
  }

  /**
   * Throws if Endpoints would replace known addresses by none. An API server may deny EndpointSlices only for a moment.
   */
  #checkFallback(kind: Kind, addresses: readonly string[]): void {
    if (kind === this.#kind || kind === 'EndpointSlices') return
    if (addresses.length > 0 || this.current().addresses.length === 0) return
    this.#trySlices()
    throw new Error('EndpointSlices are not allowed any more, and Endpoints are empty')
  }

  #take(watch: AddressWatch, addresses: readonly string[]): void {
    if (watch.kind !== this.#kind) {
      const { log } = this.#components
      if (watch.kind === 'Endpoints') log.warn('Discovery uses Endpoints, since EndpointSlices are not allowed')
      else log.info('Discovery uses EndpointSlices again')
    }
    this.#kind = watch.kind
    void this.#watch?.close()
    this.#watch = watch
    this.known.answered(addresses)
  }
}
