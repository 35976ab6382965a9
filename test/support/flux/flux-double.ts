import { createHash } from 'node:crypto'
import { once } from 'node:events'
import { readFileSync } from 'node:fs'
import { createServer, type Server } from 'node:http'
import type { AddressInfo } from 'node:net'
import { join } from 'node:path'
import { parse } from 'yaml'
import type { ApiClient, KubernetesObject } from '../../../dev/control-plane/api-client.ts'
import { eventually } from '../eventually.ts'
import type { TornDown } from '../processes.ts'

const apis = { gitrepositories: 'source.toolkit.fluxcd.io/v1', receivers: 'notification.toolkit.fluxcd.io/v1' }
type Plural = keyof typeof apis

export const fluxPath = (plural: Plural, namespace?: string): string =>
  `/apis/${apis[plural]}${namespace === undefined ? '' : `/namespaces/${namespace}`}/${plural}`

/**
 * The part of Flux that agentk uses: its kinds in a real API server, and a path for each Receiver with a Secret. The
 * endpoint of webhooks records the called Receivers.
 */
export class FluxDouble {
  readonly #admin: ApiClient
  readonly #server: Server
  readonly #stopping = new AbortController()
  /** key of the Receiver, by path */
  readonly #paths = new Map<string, string>()
  /** keys of the called Receivers, `?` for a path of none */
  readonly called: string[] = []
  /** status of each answer; others than 200 count as refused */
  status = 200
  refused = 0

  private constructor(admin: ApiClient) {
    this.#admin = admin
    this.#server = createServer((request, response) => {
      const key = request.method === 'POST' ? this.#paths.get(request.url ?? '') : undefined
      if (this.status === 200) this.called.push(key ?? '?')
      else this.refused += 1
      response.writeHead(key ? this.status : 404).end()
    })
  }

  /** Resolves when the API server serves its kinds. */
  static async start(t: TornDown, admin: ApiClient): Promise<FluxDouble> {
    const flux = new FluxDouble(admin)
    flux.#server.listen(0, '127.0.0.1')
    await once(flux.#server, 'listening')
    t.teardown(() => flux.#stop())
    for (const plural of Object.keys(apis) as Plural[]) {
      const definition = parse(readFileSync(join(import.meta.dirname, `${plural}.yaml`), 'utf8'))
      await admin.create('/apis/apiextensions.k8s.io/v1/customresourcedefinitions', definition)
      await eventually(() => admin.get(fluxPath(plural)))
    }
    void flux.#control()
    return flux
  }

  /** value for `flux.webhook_receiver_url` */
  get url(): string {
    return `http://127.0.0.1:${(this.#server.address() as AddressInfo).port}`
  }

  /** Number of calls of the Receiver. */
  countOf(key: string): number {
    return this.called.filter((each) => each === key).length
  }

  async createRepository(name: string, url: string, namespace = 'default'): Promise<KubernetesObject> {
    const spec = { interval: '10m', url }
    const object = { apiVersion: apis.gitrepositories, kind: 'GitRepository', metadata: { name, namespace }, spec }
    return await this.#admin.create(fluxPath('gitrepositories', namespace), object)
  }

  /** Creates a Receiver of a user. */
  async createReceiver(name: string, spec: object, namespace = 'default'): Promise<KubernetesObject> {
    const metadata = { name, namespace }
    const object = { apiVersion: apis.receivers, kind: 'Receiver', metadata, spec }
    return await this.#admin.create(fluxPath('receivers', namespace), object)
  }

  /** Resolves once each of these has a path. */
  async ready(keys: readonly string[]): Promise<void> {
    const known = () => new Set(this.#paths.values())
    await eventually(() => {
      const missing = keys.filter((key) => !known().has(key))
      if (missing.length > 0) throw new Error(`without a path: ${missing.join(', ')}`)
    })
  }

  /** Does the work of Flux's controller: it makes a path from a token and the Receiver's name. */
  async #control(): Promise<void> {
    const { signal } = this.#stopping
    while (!signal.aborted) {
      try {
        for await (const { type, object } of this.#admin.watch(fluxPath('receivers'), signal)) {
          if (type !== 'DELETED') await this.#reconcile(object)
        }
      } catch (error) {
        if (!signal.aborted) throw error
      }
    }
  }

  async #reconcile({ metadata, spec, status }: KubernetesObject): Promise<void> {
    if (status?.observedGeneration === metadata.generation) return
    const { namespace, name } = metadata
    const secret = await this.#admin.get(`/api/v1/namespaces/${namespace}/secrets/${spec.secretRef.name}`)
    const token = Buffer.from(secret.data.token, 'base64').toString()
    const webhookPath = `/hook/${createHash('sha256').update(`${token}${name}${namespace}`).digest('hex')}`
    this.#paths.set(webhookPath, `${namespace}/${name}`)
    const body = { status: { observedGeneration: metadata.generation, webhookPath } }
    const contentType = 'application/merge-patch+json'
    const path = `${fluxPath('receivers', namespace)}/${name}/status`
    await this.#admin.request(path, { method: 'PATCH', body, contentType })
  }

  async #stop(): Promise<void> {
    this.#stopping.abort()
    this.#server.closeAllConnections()
    this.#server.close()
  }
}
