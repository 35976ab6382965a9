import { builtIn } from '../../kubernetes/kind.ts'
import { collectionPath } from '../../kubernetes/path.ts'
import { KasError } from '../../lib/errors.ts'
import type { ApiClient } from '../cluster/api-client.ts'
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

/** Three calls of coordination.k8s.io/v1: not worth a client library (doc/decisions/0005). */
export class LeaseClient {
  readonly #client: ApiClient
  readonly #collection: string

  constructor(client: ApiClient, options: { namespace: string }) {
    this.#client = client
    this.#collection = collectionPath(builtIn.leases, options.namespace)
  }

  /** @returns undefined if there is none. @throws KasError UNREACHABLE with the server's status */
  async read(name: string, signal: AbortSignal): Promise<LeaseRecord | undefined> {
    const { status, body } = await this.#client.json('GET', `${this.#collection}/${name}`, undefined, signal)
    if (status === 404) return undefined
    return record(expect(status, body))
  }

  /**
   * Creates the lease, or writes over the version that `known` was read from.
   *
   * @returns undefined if somebody else was faster. @throws KasError UNREACHABLE with the server's status
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
    const { status, body } = known
      ? await this.#client.json('PUT', `${this.#collection}/${name}`, lease, signal)
      : await this.#client.json('POST', this.#collection, lease, signal)
    return status === 409 ? undefined : record(expect(status, body))
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

function expect(status: number, body: unknown): Lease {
  if (status >= 200 && status < 300 && body) return body as Lease
  const message = (body as { message?: string } | undefined)?.message
  const detail = `the API server answered ${status}${message ? `: ${message}` : ''}`
  throw new KasError({ code: 'UNREACHABLE', detail })
}
