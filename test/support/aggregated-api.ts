import { once } from 'node:events'
import { createServer } from 'node:https'
import type { AddressInfo } from 'node:net'
import type { Test } from 'tap'
import { Authority } from '../../dev/certificates.ts'
import type { ApiClient } from '../../dev/control-plane/api-client.ts'

const services = '/apis/apiregistration.k8s.io/v1/apiservices'

/** An API of one kind, Gadget, with a server of its own; an APIService of a real API server names it. */
export class AggregatedApi {
  /** a number: the status of all answers */
  answers: 'well' | 'never' | number = 'well'
  readonly group: string
  readonly #admin: ApiClient

  private constructor(group: string, admin: ApiClient) {
    this.group = group
    this.#admin = admin
  }

  static async start(t: Pick<Test, 'teardown'>, admin: ApiClient, group: string): Promise<AggregatedApi> {
    const api = new AggregatedApi(group, admin)
    const authority = await Authority.create(group)
    const { certificate: cert, key } = await authority.issueServing({ dns: ['localhost'], ip: [] })
    const server = createServer({ cert, key }, ({ url = '' }, response) => {
      if (api.answers === 'never') return
      const status = api.answers === 'well' ? (bodyOf(url, group) ? 200 : 404) : api.answers
      response.writeHead(status, { 'content-type': 'application/json' })
      response.end(JSON.stringify(status === 200 ? bodyOf(url, group) : { kind: 'Status', status: 'Failure' }))
    })
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
}

function bodyOf(url: string, group: string): object | undefined {
  const groupVersion = `${group}/v1`
  const { pathname } = new URL(url, 'https://localhost')
  if (pathname === `/apis/${groupVersion}`) {
    const verbs = ['get', 'list', 'watch']
    const gadgets = { name: 'gadgets', singularName: 'gadget', namespaced: true, kind: 'Gadget', verbs }
    return { kind: 'APIResourceList', apiVersion: 'v1', groupVersion, resources: [gadgets] }
  }
  if (pathname !== `/apis/${groupVersion}/gadgets`) return undefined
  return { kind: 'GadgetList', apiVersion: groupVersion, metadata: { resourceVersion: '1' }, items: [] }
}
