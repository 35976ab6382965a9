import { createServer, type IncomingMessage, type ServerResponse } from 'node:http'
import { text } from 'node:stream/consumers'
import type { Test } from 'tap'
import type { ApiClient } from '../../../src/agentk/cluster/api-client.ts'
import { apiClient } from '../../support/api-client.ts'
import { listen } from './api-server.ts'

// biome-ignore lint/suspicious/noExplicitAny: objects of the API server
type Fields = any

const collection = /^\/apis\/([\w.]+)\/(\w+)\/(?:namespaces\/([\w-]+)\/)?(gitrepositories|receivers)(?:\/([\w.-]+))?$/
const secrets = /^\/api\/v1\/namespaces\/([\w-]+)\/secrets$/

/**
 * A minimal API server for Flux's objects, in memory. It fails as the test wants, and serves its own group versions.
 */
export class FluxApi {
  /** versions by group */
  readonly served = new Map([
    ['source.toolkit.fluxcd.io', ['v1', 'v1beta2']],
    ['notification.toolkit.fluxcd.io', ['v1', 'v1beta2', 'v1beta3']],
  ])
  /** status of the answer, by `<verb> <resource>` */
  readonly refused = new Map<string, number>()
  /** status of each create in a namespace */
  readonly refusedNamespaces = new Map<string, number>()
  /** requests in order: `<verb> <resource>`, or `other <path>` */
  readonly requests: string[] = []
  readonly secrets = new Set<string>()
  /** watches do not report changes made while this is set */
  isSilent = false
  /** Returns the status of a POST to any other path. */
  onOther: (path: string) => number = () => 404
  readonly #objects = new Map<string, Fields>()
  readonly #watches = new Set<{ resource: string; response: ServerResponse }>()
  readonly #events: { readonly resource: string; readonly version: number; readonly line: string }[] = []
  #version = 100
  #uid = 0
  client!: ApiClient

  static async start(t: Test): Promise<FluxApi> {
    const api = new FluxApi()
    const server = createServer((request, response) => void api.#serve(request, response))
    const port = await listen(server)
    t.teardown(() => {
      server.closeAllConnections()
      server.close()
    })
    api.client = apiClient(t, { server: `http://127.0.0.1:${port}` })
    return api
  }

  /** @returns the stored object */
  put(resource: string, key: string, fields: Fields): Fields {
    const [namespace, name] = key.split('/')
    const known = this.#objects.get(`${resource} ${key}`)
    const resourceVersion = String(++this.#version)
    const uid = known?.metadata.uid ?? `uid-${++this.#uid}`
    const metadata = { ...known?.metadata, ...fields.metadata, name, namespace, uid, resourceVersion }
    const object = { ...known, ...fields, metadata }
    this.#objects.set(`${resource} ${key}`, object)
    this.#tell(resource, known ? 'MODIFIED' : 'ADDED', object)
    return object
  }

  remove(resource: string, key: string): void {
    const known = this.#objects.get(`${resource} ${key}`)
    this.#objects.delete(`${resource} ${key}`)
    const metadata = { ...known.metadata, resourceVersion: String(++this.#version) }
    this.#tell(resource, 'DELETED', { ...known, metadata })
  }

  get(resource: string, key: string): Fields {
    return this.#objects.get(`${resource} ${key}`)
  }

  repository(key: string, url: string): Fields {
    return this.put('gitrepositories', key, { spec: { url, interval: '10m' } })
  }

  /** Gives the Receiver its path, as Flux does. */
  ready(key: string, path = `/hook/${key.replace('/', '-')}`): void {
    this.put('receivers', key, { status: { webhookPath: path } })
  }

  /** Ends all watches: with an ERROR event of this code, cleanly (200), or by a cut connection (0). */
  endWatches(code: number): void {
    for (const { response } of this.#watches) {
      if (code === 0) response.destroy()
      else if (code === 200) response.end()
      else response.end(`${JSON.stringify({ type: 'ERROR', object: { kind: 'Status', code } })}\n`)
    }
    this.#watches.clear()
  }

  get watches(): number {
    return this.#watches.size
  }

  async #serve(request: IncomingMessage, response: ServerResponse): Promise<void> {
    const url = new URL(request.url ?? '', 'http://api')
    const [, group = '', version = '', namespace = '', resource = '', name = ''] = collection.exec(url.pathname) ?? []
    if (resource && this.served.get(group)?.includes(version)) {
      const verb = verbOf(request.method, url.searchParams.has('watch'))
      if (this.#refuses(verb, resource, response)) return
      if (verb === 'list') return this.#list(resource, url, response)
      if (verb === 'watch') return this.#watch(resource, Number(url.searchParams.get('resourceVersion')), response)
      const body = JSON.parse(await text(request))
      const key = `${namespace}/${verb === 'create' ? body.metadata.name : name}`
      if (verb === 'create' && this.get(resource, key)) return send(response, 409, {})
      return send(response, verb === 'create' ? 201 : 200, this.put(resource, key, body))
    }
    const [, inNamespace] = secrets.exec(url.pathname) ?? []
    if (inNamespace && request.method === 'POST') return await this.#createSecret(inNamespace, request, response)
    this.requests.push(`other ${url.pathname}`)
    if (request.method === 'POST') return send(response, this.onOther(url.pathname), {})
    const discovery = this.#discovery(url.pathname)
    send(response, discovery ? 200 : 404, discovery)
  }

  #refuses(verb: string, resource: string, response: ServerResponse): boolean {
    this.requests.push(`${verb} ${resource}`)
    const status = this.refused.get(`${verb} ${resource}`)
    if (status !== undefined) send(response, status, { message: `${resource} is forbidden` })
    return status !== undefined
  }

  async #createSecret(namespace: string, request: IncomingMessage, response: ServerResponse): Promise<void> {
    if (this.#refuses('create', 'secrets', response)) return
    const status = this.refusedNamespaces.get(namespace)
    if (status !== undefined) return send(response, status, { message: `${namespace} is being terminated` })
    const key = `${namespace}/${JSON.parse(await text(request)).metadata.name}`
    if (this.secrets.has(key)) return send(response, 409, {})
    this.secrets.add(key)
    send(response, 201, {})
  }

  #discovery(path: string): Fields {
    const [, group = '', version] = /^\/apis\/([\w.]+)(?:\/(\w+))?$/.exec(path) ?? []
    const versions = this.served.get(group)
    if (!version) return versions && { kind: 'APIGroup', versions: versions.map((each) => ({ version: each })) }
    const names = group.startsWith('source') ? ['gitrepositories', 'gitrepositories/status'] : ['receivers']
    return versions?.includes(version) ? { resources: names.map((name) => ({ name })) } : undefined
  }

  #list(resource: string, url: URL, response: ServerResponse): void {
    const all = [...this.#objects].filter(([key]) => key.startsWith(`${resource} `)).map(([, object]) => object)
    const from = Number(url.searchParams.get('continue') ?? 0)
    const end = from + Number(url.searchParams.get('limit') ?? all.length)
    const metadata = { resourceVersion: String(this.#version), ...(end < all.length ? { continue: String(end) } : {}) }
    send(response, 200, { metadata, items: all.slice(from, end) })
  }

  #watch(resource: string, version: number, response: ServerResponse): void {
    response.writeHead(200, { 'Content-Type': 'application/json' }).flushHeaders()
    for (const each of this.#events) {
      if (each.resource === resource && each.version > version) response.write(each.line)
    }
    const watch = { resource, response }
    this.#watches.add(watch)
    response.on('close', () => this.#watches.delete(watch))
  }

  #tell(resource: string, type: string, object: Fields): void {
    if (this.isSilent) return
    const line = `${JSON.stringify({ type, object })}\n`
    this.#events.push({ resource, version: this.#version, line })
    for (const watch of this.#watches) if (watch.resource === resource) watch.response.write(line)
  }
}

function verbOf(method: string | undefined, isWatch: boolean): string {
  if (method === 'GET') return isWatch ? 'watch' : 'list'
  return method === 'POST' ? 'create' : 'patch'
}

function send(response: ServerResponse, status: number, body: Fields): void {
  response.writeHead(status, { 'Content-Type': 'application/json' }).end(JSON.stringify(body ?? {}))
}
