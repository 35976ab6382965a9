import { builtIn } from '../../kubernetes/kind.ts'
import { collectionPath, objectPath } from '../../kubernetes/path.ts'
import type { KasError } from '../../lib/errors.ts'
import { type ApiClient, bodyOf } from '../cluster/api-client.ts'
import type { LeaseRecord } from './leader-rule.ts'

interface Lease {
  metadata?: { resourceVersion?: string }
  spec?: {
    holderIdentity?: string
    leaseDurationSeconds?: number
    acquireTime?: string
    renewTime?: string
    leaseTransitions?: number
  }
}

/** Next step if agentk's Namespace is absent. */
export const absentNamespaceStep = (namespace: string) =>
  `set POD_NAMESPACE to one that it has, or make it: kubectl create namespace ${namespace}`

/** Client for three calls of coordination.k8s.io/v1, which are not worth a client library (doc/decisions/0005). */
export class LeaseClient {
  readonly #client: ApiClient
  readonly #namespace: string

  constructor(client: ApiClient, options: { namespace: string }) {
    this.#client = client
    this.#namespace = options.namespace
  }

  /** @returns undefined if there is no lease. @throws KasError UNREACHABLE with the server's status */
  async read(name: string, signal: AbortSignal): Promise<LeaseRecord | undefined> {
    const answer = await this.#client.json('GET', this.#pathOf(name), undefined, signal)
    if (answer.status === 404) return undefined
    return record(bodyOf(answer) as Lease)
  }

  /**
   * Creates the lease, or overwrites the version that `known` was read from.
   *
   * @returns undefined if another process was faster. @throws KasError UNREACHABLE with the server's status
   */
  async write(
    name: string,
    next: Omit<LeaseRecord, 'resourceVersion'>,
    known: LeaseRecord | undefined,
    signal: AbortSignal,
  ): Promise<LeaseRecord | undefined> {
    const lease = {
      apiVersion: 'coordination.k8s.io/v1',
      kind: 'Lease',
      metadata: { name, ...(known ? { resourceVersion: known.resourceVersion } : {}) },
      spec: {
        holderIdentity: next.holder,
        leaseDurationSeconds: next.durationSeconds,
        acquireTime: next.acquireTime,
        renewTime: next.renewTime,
        leaseTransitions: next.transitions,
      },
    }
    const answer = known
      ? await this.#client.json('PUT', this.#pathOf(name), lease, signal)
      : await this.#client.json('POST', collectionPath(builtIn.leases, this.#namespace), lease, signal)
    return answer.status === 409 ? undefined : record(bodyOf(answer) as Lease)
  }

  nextStep(error: unknown, name: string): string | undefined {
    const { spec } = error as Partial<KasError>
    if (spec?.code !== 'UNREACHABLE') return undefined
    const namespace = this.#namespace
    // agentk creates an absent Lease, so 404 means an absent Namespace
    if (spec.httpStatus === 404) return `The cluster has no Namespace ${namespace}: ${absentNamespaceStep(namespace)}`
    if (spec.httpStatus === 403)
      return `Let the account of agentk get, create and update leases in the Namespace ${namespace}; a Role that names one names ${name}`
    return undefined
  }

  #pathOf(name: string): string {
    return objectPath(builtIn.leases, { namespace: this.#namespace, name })
  }
}

function record({ metadata, spec }: Lease): LeaseRecord {
  return {
    holder: spec?.holderIdentity ?? '',
    durationSeconds: spec?.leaseDurationSeconds ?? 0,
    acquireTime: spec?.acquireTime ?? '',
    renewTime: spec?.renewTime ?? '',
    transitions: spec?.leaseTransitions ?? 0,
    resourceVersion: metadata?.resourceVersion ?? '',
  }
}
