import type * as ClientNode from '@kubernetes/client-node'
import { within } from '../../../lib/deadline.ts'

export type Library = typeof import('./client-node.ts')

/** Loads the package, which takes a second and 100 MB: only if a cluster is asked. */
const load = (): Promise<Library> => import('./client-node.ts')

export interface ClusterClientOptions {
  /** path of a file; absent: the cluster that this pod runs in */
  readonly kubeconfig?: string
  /** bound of one request, but not of a watch */
  readonly requestTimeoutMs: number
}

/**
 * Client of the API server with its own connections, so that `close` cuts all of them. Each watch gets a new client. It
 * reads certificates and tokens again, and does not use a connection that has died without a word.
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

  /** @throws Error if there is no such kubeconfig, or if it names no cluster */
  static async open(options: ClusterClientOptions): Promise<ClusterClient> {
    const client = new ClusterClient(await load(), options)
    client.#configure()
    return client
  }

  /** Namespace of the context; for a pod, its own. */
  get namespace(): string {
    return this.config.getContextObject(this.config.getCurrentContext())?.namespace?.trim() || 'default'
  }

  /** aborts when the client is closed */
  get closed(): AbortSignal {
    return this.#closed.signal
  }

  /**
   * Waits for `answer`, within the bound of a request.
   *
   * @throws the error of `answer`, Error if it takes too long, the reason of `closed`
   */
  inTime<T>(answer: Promise<T>): Promise<T> {
    const { requestTimeoutMs } = this.#options
    const reason = () => new Error(`no answer within ${requestTimeoutMs} ms`)
    return within(answer, { ms: requestTimeoutMs, signals: [this.closed], reason })
  }

  /** Cuts running requests; resolves once the connections are closed. */
  async close(): Promise<void> {
    this.#closed.abort(new Error('closed'))
    await this.#dispatcher?.destroy().catch(() => undefined) // no code waits for its requests
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

  /** Lets connections that are still being made end with this client: undici would leave them for 10 s. */
  #ended(options: ClientNode.DispatcherOptions): ClientNode.DispatcherOptions {
    if (options.type === 'socks') return options
    const given = options.type === 'none' ? {} : options.connect
    const connect = { ...given, timeout: this.#options.requestTimeoutMs, signal: this.closed }
    return options.type === 'none' ? { type: 'agent', connect } : { ...options, connect }
  }
}
