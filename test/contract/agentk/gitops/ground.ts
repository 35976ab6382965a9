import type { Test } from 'tap'
import { missingAssets } from '../../../../dev/control-plane/assets.ts'
import type { ControlPlane } from '../../../../dev/control-plane/control-plane.ts'
import type { ApiClient } from '../../../../src/agentk/cluster/api-client.ts'
import { BackgroundRequests } from '../../../../src/agentk/cluster/background-requests.ts'
import { ClusterKinds } from '../../../../src/agentk/modules/gitops/live/cluster-kinds.ts'
import { type LiveObject, liveObjectOf } from '../../../../src/agentk/modules/gitops/live/live-object.ts'
import type { ObjectTree } from '../../../../src/agentk/modules/gitops/manifests/manifest.ts'
import type { ObjectKey } from '../../../../src/kubernetes/key.ts'
import { objectPath } from '../../../../src/kubernetes/path.ts'
import { systemClock } from '../../../../src/lib/clock.ts'
import { adminClient } from '../../../support/api-client.ts'

const missing = missingAssets(process.env.KUBEBUILDER_ASSETS, 'api')
export const skip = missing.length > 0 && `needs ${missing.join(', ')}`

export interface Ask {
  readonly method: string
  readonly path: string
  readonly body: unknown
}

/** Loads the shared control plane only here: tap ends a process that loads it and is not a test. */
async function shared(t: Pick<Test, 'teardown'>): Promise<ControlPlane> {
  const { sharedControlPlane } = await import('../../../support/control-plane/shared-control-plane.ts')
  return await sharedControlPlane(t)
}

/** A real API server, and a record of the requests of a source. */
export class Ground {
  readonly controlPlane: ControlPlane
  readonly client: ApiClient
  readonly lanes: BackgroundRequests
  kinds: ClusterKinds
  /** all requests through the lanes */
  readonly asked: Ask[] = []
  /** called before a request is sent */
  onAsk: (ask: Ask) => Promise<void> | void = () => undefined

  private constructor(controlPlane: ControlPlane, client: ApiClient) {
    this.controlPlane = controlPlane
    this.client = client
    const counted = {
      json: async (...request: Parameters<ApiClient['json']>) => {
        const [method, path, body] = request
        const ask = { method, path, body }
        this.asked.push(ask)
        await this.onAsk(ask)
        return await client.json(...request)
      },
    }
    this.lanes = new BackgroundRequests({ client: counted, clock: systemClock, holds: () => true })
    this.kinds = new ClusterKinds([])
  }

  /**
   * @param t - its teardown ends the ground
   * @param own - a running control plane; default: the one that tests of this process share
   */
  static async start(t: Pick<Test, 'teardown'>, own?: ControlPlane): Promise<Ground> {
    const controlPlane = own ?? (await shared(t))
    const ground = new Ground(controlPlane, adminClient(t, controlPlane))
    await ground.readKinds()
    return ground
  }

  async readKinds(): Promise<void> {
    this.kinds = await ClusterKinds.read(this.client, new AbortController().signal)
  }

  /** Returns the writes of the lanes in order: method and path without the query. */
  writes(): string[] {
    return this.asked
      .filter(({ method }) => method !== 'GET')
      .map(({ method, path }) => `${method} ${path.split('?')[0]}`)
  }

  path(key: ObjectKey): string {
    const kind = this.kinds.find(key)
    if (!kind) throw new Error(`nobody serves ${key.kind}`)
    return objectPath(kind, key)
  }

  /** @returns the object; undefined: there is none */
  // biome-ignore lint/suspicious/noExplicitAny: the shape is the API server's
  async get(key: ObjectKey): Promise<any> {
    const { status, body } = await this.client.json('GET', this.path(key))
    return status === 404 ? undefined : body
  }

  async live(key: ObjectKey, manager: string): Promise<LiveObject | undefined> {
    const object = await this.get(key)
    return object && liveObjectOf(object, manager)
  }

  async create(key: ObjectKey, object: ObjectTree, manager = 'somebody'): Promise<void> {
    const path = this.path(key).replace(/\/[^/]+$/, '')
    await this.#expect('POST', `${path}?fieldManager=${manager}`, object)
  }

  async merge(key: ObjectKey, patch: object, manager = 'somebody', subresource = ''): Promise<void> {
    const path = `${this.path(key)}${subresource && `/${subresource}`}?fieldManager=${manager}`
    await this.#expect('PATCH', path, patch, 'application/merge-patch+json')
  }

  async apply(key: ObjectKey, object: ObjectTree, manager: string): Promise<void> {
    const path = `${this.path(key)}?fieldManager=${manager}&force=true`
    await this.#expect('PATCH', path, object, 'application/apply-patch+yaml')
  }

  async #expect(method: string, path: string, body: unknown, contentType = 'application/json'): Promise<void> {
    const answer = await this.client.json(method, path, body, undefined, { contentType })
    if (answer.status >= 300) throw new Error(`${method} ${path}: ${answer.status} ${JSON.stringify(answer.body)}`)
  }
}

export const keyOf = (kind: string, name: string, namespace = 'shop', group = ''): ObjectKey => ({
  group,
  kind,
  namespace,
  name,
})

export const configMap = (name: string, data: Record<string, string>, metadata: object = {}): ObjectTree => ({
  apiVersion: 'v1',
  kind: 'ConfigMap',
  metadata: { name, namespace: 'shop', ...metadata },
  data,
})

export const deployment = (name: string, spec: object = {}, metadata: object = {}): ObjectTree => ({
  apiVersion: 'apps/v1',
  kind: 'Deployment',
  metadata: { name, namespace: 'shop', ...metadata },
  spec: {
    selector: { matchLabels: { app: name } },
    template: {
      metadata: { labels: { app: name } },
      spec: { containers: [{ name: 'web', image: 'nginx:1' }] },
    },
    ...spec,
  },
})
