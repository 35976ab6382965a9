import type * as ClientNode from '@kubernetes/client-node'
import { within } from '../../../lib/deadline.ts'

export type Library = typeof import('./client-node.ts')

/** The package takes a second and 100 MB to load: only who asks a cluster does. */
const load = (): Promise<Library> => import('./client-node.ts')

export interface ClusterClientOptions {
  /** a file; absent: the cluster that this pod runs in */
  readonly kubeconfig?: string
  /** one request, a watch apart */
  readonly requestTimeoutMs: number
}

/**
 * A way to the API server with connections of its own, so that closing it cuts whatever hangs. Made anew for each
 * watch: certificates and tokens are read again, and a connection that has died without a word is left behind.
 */
export class ClusterClient {
  readonly library: Library
  readonly config: ClientNode.KubeConfig
  readonly #options: ClusterClientOptions
  readonly #closed = new AbortController()
  #dispatcher: ReturnType<ClientNode.RequestContext['getDispatcher']>

  private constructor(library: Library, options: ClusterClientOptions) {
    this.library = library
    this.config = new library.KubeConfig()
    this.#options = options
  }

  /** @throws Error if there is no such kubeconfig, or it names no cluster */
  static async open(options: ClusterClientOptions): Promise<ClusterClient> {
    const client = new ClusterClient(await load(), options)
    client.#configure()
    return client
  }

  /** The namespace of the context, which for a pod is its own. */
  get namespace(): string {
    return this.config.getContextObject(this.config.getCurrentContext())?.namespace?.trim() || 'default'
  }

  /** aborts when it is closed */
  get closed(): AbortSignal {
    return this.#closed.signal
  }

  /**
   * Waits for `answer`, for as long as a request may take.
   *
   * @throws what it throws, Error if it takes too long, the reason of `closed`
   */
  inTime<T>(answer: Promise<T>): Promise<T> {
    const { requestTimeoutMs } = this.#options
    const reason = () => new Error(`no answer within ${requestTimeoutMs} ms`)
    return within(answer, { ms: requestTimeoutMs, signals: [this.closed], reason })
  }

  /** Cuts what runs; resolves when its connections are gone. */
  async close(): Promise<void> {
    this.#closed.abort(new Error('closed'))
    await this.#dispatcher?.destroy().catch(() => undefined) // nobody waits for what it carried
  }

  #configure(): void {
    const { config } = this
    const { kubeconfig } = this.#options
    if (kubeconfig === undefined) config.loadFromCluster()
    else config.loadFromFile(kubeconfig)
    if (!config.getCurrentCluster()) throw new Error(`${kubeconfig ?? 'the pod'} names no cluster`)
    const apply = config.applySecurityAuthentication.bind(config)
    // client-node makes new connections for each request, and closes none
    config.applySecurityAuthentication = async (context) => {
      await apply(context)
      this.#dispatcher ??= context.getDispatcher()
      if (this.#dispatcher) context.setDispatcher(this.#dispatcher)
      context.setSignal(this.closed)
    }
    const optionsOf = config.createDispatcherOptions.bind(config)
    config.createDispatcherOptions = (cluster, agentOptions) => this.#ended(optionsOf(cluster, agentOptions))
  }

  /** Adds that a connection which is still being made ends with this client: undici leaves it for 10 s. */
  #ended(options: ClientNode.DispatcherOptions): ClientNode.DispatcherOptions {
    if (options.type === 'socks') return options
    const given = options.type === 'none' ? {} : options.connect
    const connect = { ...given, timeout: this.#options.requestTimeoutMs, signal: this.closed }
    return options.type === 'none' ? { type: 'agent', connect } : { ...options, connect }
  }
}
