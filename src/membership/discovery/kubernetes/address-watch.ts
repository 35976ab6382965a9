import type { KubernetesObject } from '@kubernetes/client-node'
import { builtIn } from '../../../kubernetes/kind.ts'
import { collectionPath } from '../../../kubernetes/path.ts'
import type { ClusterClient } from './cluster-client.ts'
import { endpointsAddresses, sliceAddresses } from './endpoint-addresses.ts'
import {
  type Listed,
  ServiceInformer,
  type ServiceInformerComponents,
  type ServiceInformerOptions,
} from './service-informer.ts'

/** `Endpoints` is the older kind, for clusters whose roles allow only that one. */
export type Kind = 'EndpointSlices' | 'Endpoints'

export interface AddressWatchOptions extends ServiceInformerOptions {
  readonly kind: Kind
  readonly services: readonly string[]
  readonly namespace: string
  /** for a Service without a port `gossip` */
  readonly otherPort: number
}

/** Addresses of some Services from one kind of object: one list and one watch for each Service. */
export class AddressWatch {
  readonly kind: Kind
  readonly #client: ClusterClient
  readonly #parts: readonly { addresses(): string[]; start(): Promise<void>; lost: Promise<unknown> }[]

  /**
   * @param components.client - closed with the watch
   * @param components.onChange - called after a possible change of `addresses()`
   */
  constructor(components: ServiceInformerComponents & { readonly onChange: () => void }, options: AddressWatchOptions) {
    const { kind, services, otherPort } = options
    this.kind = kind
    this.#client = components.client
    const informer = <T extends KubernetesObject>(listed: Listed<T>, addressesOf: (object: T) => string[]) => {
      const informer = new ServiceInformer({ ...components, listed }, options)
      return {
        addresses: () => informer.objects.flatMap(addressesOf),
        start: () => informer.start(),
        lost: informer.lost,
      }
    }
    this.#parts = services.map((service) =>
      kind === 'Endpoints'
        ? informer(endpointsOf(service, components.client, options), (one) => endpointsAddresses(one, otherPort))
        : informer(slicesOf(service, components.client, options), (one) => sliceAddresses(one, otherPort)),
    )
  }

  /**
   * Resolves once all Services are listed.
   *
   * @throws the first failure
   */
  async start(): Promise<void> {
    await Promise.all(this.#parts.map((part) => part.start()))
  }

  addresses(): string[] {
    return this.#parts.flatMap((part) => part.addresses())
  }

  /** Resolves with the reason once one of the watches has failed. */
  get lost(): Promise<unknown> {
    return Promise.race(this.#parts.map((part) => part.lost))
  }

  close(): Promise<void> {
    return this.#client.close()
  }
}

function slicesOf(service: string, client: ClusterClient, { namespace }: AddressWatchOptions) {
  const api = client.config.makeApiClient(client.library.DiscoveryV1Api)
  const labelSelector = `kubernetes.io/service-name=${service}`
  return {
    path: collectionPath(builtIn.endpointSlices, namespace),
    labelSelector,
    list: () => api.listNamespacedEndpointSlice({ namespace, labelSelector }),
  }
}

/** Selects by name, so that a Role may name the Services whose Endpoints it allows. */
function endpointsOf(service: string, client: ClusterClient, { namespace }: AddressWatchOptions) {
  const api = client.config.makeApiClient(client.library.CoreV1Api)
  const fieldSelector = `metadata.name=${service}`
  return {
    path: collectionPath(builtIn.endpoints, namespace),
    fieldSelector,
    list: () => api.listNamespacedEndpoints({ namespace, fieldSelector }),
  }
}
