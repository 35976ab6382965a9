import { once } from 'node:events'
import type { IncomingMessage, ServerResponse } from 'node:http'
import { createServer } from 'node:https'
import type { AddressInfo } from 'node:net'
import { text } from 'node:stream/consumers'
import type { Test } from 'tap'
import { Authority } from '../../dev/certificates.ts'
import type { ApiClient, KubernetesObject } from '../../dev/control-plane/api-client.ts'

const services = '/apis/apiregistration.k8s.io/v1/apiservices'
const verbs = ['get', 'list', 'watch', 'create', 'patch', 'delete']

/**
 * An API of one kind, Gadget, with a server of its own; an APIService of a real API server names it. The server does not
 * know `dryRun`: it stores all that it is sent.
 */
export class AggregatedApi {
  /** a number: the status of all answers */
  answers: 'well' | 'never' | number = 'well'
  readonly group: string
  /** by `namespace/name` */
  readonly objects = new Map<string, KubernetesObject>()
  /** requests that change something, as the API server passes them on: `PATCH /namespaces/shop/gadgets/one?force=true` */
  readonly writes: string[] = []
  /** Returns a refusal of a change, as a Status; undefined: it is stored. */
  refuse: (before: KubernetesObject | undefined, after: KubernetesObject) => KubernetesObject | undefined = () =>
    undefined
  readonly #admin: ApiClient
  #revision = 1

  private constructor(group: string, admin: ApiClient) {
    this.group = group
    this.#admin = admin
  }

  static async start(t: Pick<Test, 'teardown'>, admin: ApiClient, group: string): Promise<AggregatedApi> {
    const api = new AggregatedApi(group, admin)
    const authority = await Authority.create(group)
    const { certificate: cert, key } = await authority.issueServing({ dns: ['localhost'], ip: [] })
    const server = createServer({ cert, key }, (request, response) => void api.#serve(request, response))
    await once(server.listen(0, '127.0.0.1'), 'listening')
    t.teardown(() => {
      server.closeAllConnections()
      server.close()
    })
    const { port } = server.address() as AddressInfo
    const name = group.split('.')[0] as string
    const spec = { type: 'ExternalName', externalName: 'localhost' }
    await admin.create('/api/v1/namespaces/default/services', { metadata: { name }, spec })
    await admin.create(services, {
      metadata: { name: `v1.${group}` },
      spec: {
        group,
        version: 'v1',
        groupPriorityMinimum: 1000,
        versionPriority: 10,
        insecureSkipTLSVerify: true,
        service: { namespace: 'default', name, port },
      },
    })
    return api
  }

  /** Returns true if the API server reports it as available. */
  async isAvailable(): Promise<boolean> {
    const { body } = await this.#admin.request(`${services}/v1.${this.group}`)
    const { status } = JSON.parse(body) as { status?: { conditions?: readonly { type: string; status: string }[] } }
    return status?.conditions?.some((one) => one.type === 'Available' && one.status === 'True') ?? false
  }

  async #serve(request: IncomingMessage, response: ServerResponse): Promise<void> {
    if (this.answers === 'never') return
    const body = this.answers === 'well' ? await this.#answer(request) : undefined
    const status = this.answers === 'well' ? (body ? (body.kind === 'Status' ? body.code : 200) : 404) : this.answers
    response.writeHead(status, { 'content-type': 'application/json' })
    response.end(JSON.stringify(body ?? { kind: 'Status', apiVersion: 'v1', status: 'Failure', code: status }))
  }

  /** @returns undefined: there is no such object */
  async #answer(request: IncomingMessage): Promise<KubernetesObject | undefined> {
    const { method = 'GET', url = '' } = request
    const groupVersion = `${this.group}/v1`
    const { pathname, search } = new URL(url, 'https://localhost')
    const prefix = `/apis/${groupVersion}`
    if (pathname === prefix) {
      const gadgets = { name: 'gadgets', singularName: 'gadget', namespaced: true, kind: 'Gadget', verbs }
      return { kind: 'APIResourceList', apiVersion: 'v1', groupVersion, resources: [gadgets] }
    }
    const at = /^(?:\/namespaces\/(?<namespace>[^/]+))?\/gadgets(?:\/(?<name>[^/]+))?$/
    const found = pathname.startsWith(prefix) ? at.exec(pathname.slice(prefix.length))?.groups : undefined
    if (!found) return undefined
    const { namespace = '', name = '' } = found
    if (method !== 'GET') this.writes.push(`${method} ${pathname.slice(prefix.length)}${search}`)
    if (method === 'PATCH' || method === 'POST') return this.#store(namespace, name, JSON.parse(await text(request)))
    const key = `${namespace}/${name}`
    if (method === 'DELETE') {
      return this.objects.delete(key) ? { kind: 'Status', apiVersion: 'v1', status: 'Success', code: 200 } : undefined
    }
    if (name !== '') return this.objects.get(key)
    const isListed = (one: string) => namespace === '' || one.startsWith(key)
    const items = [...this.objects].flatMap(([one, object]) => (isListed(one) ? [object] : []))
    return {
      kind: 'GadgetList',
      apiVersion: groupVersion,
      metadata: { resourceVersion: String(this.#revision) },
      items,
    }
  }

  #store(namespace: string, given: string, object: KubernetesObject): KubernetesObject {
    const name = given || (object.metadata.name ?? `${object.metadata.generateName}${this.#revision}`)
    const before = this.objects.get(`${namespace}/${name}`)
    const refusal = this.refuse(before, object)
    if (refusal) return refusal
    const resourceVersion = String(++this.#revision)
    const uid = before?.metadata.uid ?? `gadget-${resourceVersion}`
    const stored = { ...object, metadata: { ...object.metadata, namespace, name, uid, resourceVersion } }
    this.objects.set(`${namespace}/${name}`, stored)
    return stored
  }
}
