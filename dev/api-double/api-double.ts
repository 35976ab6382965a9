import type { IncomingMessage, ServerResponse } from 'node:http'
import { createServer, type Server } from 'node:https'
import type { AddressInfo, Socket } from 'node:net'
import type { Service } from '../../src/lib/service.ts'
import type { Pem } from '../certificates.ts'
import { callerOf } from './callers.ts'
import { discoveryDocument, openApiDocument } from './discovery.ts'
import { offersChannels, serveExec, servePortForward } from './exec-web-socket.ts'
import { decodeKubernetesProtobuf, protobufType } from './kubernetes-protobuf.ts'
import { serveLog } from './logs.ts'
import { applyType, Objects } from './objects.ts'
import { readDocument } from './reads.ts'
import { parseTarget, type RequestTarget } from './request-target.ts'
import { containersOf, isReview } from './resources.ts'
import { answerReview } from './reviews.ts'
import { seed, seedBroken } from './seed.ts'
import { StatusError } from './status-error.ts'
import { Store } from './store.ts'
import { shapeOf } from './tables.ts'
import { serveWatch } from './watches.ts'

export interface ApiDoubleComponents {
  /** certificate and key of the server */
  readonly serving: Pem
  /** PEM of the authority whose client certificates identify their users */
  readonly clientAuthority: string
}

export interface ApiDoubleOptions {
  /** clients with this bearer token are `kubernetes-admin` of `system:masters` */
  readonly token: string
  readonly host?: string
  /** 0: a free one */
  readonly port?: number
  /** interval of the lines of a pod's log */
  readonly logLineEveryMs?: number
  /** length of the past part of a pod's log, in lines */
  readonly pastLogLines?: number
  /** answers `…/services/NAME/proxy/…` as a workload in the cluster. Default: there is none */
  readonly workload?: Workload
  /** adds a Deployment that gets no Pods; default: no */
  readonly broken?: boolean
}

export type Workload = (request: IncomingMessage, response: ServerResponse) => void

const workloadPath = /^\/api\/v1\/namespaces\/[^/]+\/services\/[^/]+\/proxy\//
const noWorkload: Workload = () => {
  throw new StatusError(404, 'the API double runs no workloads')
}

/** handlers by the subresource of a pod */
const upgrades = new Map([
  ['exec', serveExec],
  ['portforward', servePortForward],
])
const maxBodyBytes = 1_048_576
const maxConnections = 1000

/**
 * A small Kubernetes API in this process, enough for kubectl. It has list, get, watch, tables, Namespaces and
 * ConfigMaps that can be written and applied, and logs and exec with generated output. It runs no containers and
 * forgets all when it stops.
 */
export class ApiDouble implements Service {
  readonly #options: Required<ApiDoubleOptions>
  readonly #store = new Store()
  readonly #objects = new Objects(this.#store)
  readonly #server: Server
  readonly #upgraded = new Set<Socket>()

  constructor(components: ApiDoubleComponents, options: ApiDoubleOptions) {
    const defaults = {
      host: '127.0.0.1',
      port: 0,
      logLineEveryMs: 1000,
      pastLogLines: 1000,
      workload: noWorkload,
      broken: false,
    }
    this.#options = { ...defaults, ...options }
    const { serving, clientAuthority } = components
    this.#server = createServer({
      cert: serving.certificate,
      key: serving.key,
      ca: clientAuthority,
      requestCert: true,
      rejectUnauthorized: false, // a token is enough
      ALPNProtocols: ['http/1.1'],
      maxHeaderSize: 65_536,
      headersTimeout: 10_000,
      requestTimeout: 0,
      noDelay: true,
    })
    this.#server.maxConnections = maxConnections
    this.#server.on('request', (request, response) => void this.#serve(request, response))
    this.#server.on('upgrade', (request, socket, head) => this.#upgrade(request, socket as Socket, head))
    seed(this.#store)
    if (this.#options.broken) seedBroken(this.#store)
  }

  /** @returns for instance `https://127.0.0.1:40123`, once started */
  get url(): string {
    const { port } = this.#server.address() as AddressInfo
    return `https://${this.#options.host}:${port}`
  }

  start(): Promise<void> {
    return new Promise((resolve, reject) => {
      this.#server.once('error', reject)
      this.#server.listen(this.#options.port, this.#options.host, () => {
        this.#server.off('error', reject)
        resolve()
      })
    })
  }

  /** Cuts all connections: its watches and logs would never end. */
  async stop(): Promise<void> {
    if (!this.#server.listening) return
    const closed = new Promise<void>((resolve) => this.#server.close(() => resolve()))
    this.#server.closeAllConnections()
    for (const socket of this.#upgraded) socket.destroy()
    await closed
  }

  async #serve(request: IncomingMessage, response: ServerResponse): Promise<void> {
    response.on('error', () => undefined) // the client left
    try {
      const url = urlOf(request)
      if (['/healthz', '/livez', '/readyz'].includes(url.pathname)) return void response.end('ok')
      const caller = callerOf(request, this.#options.token)
      const document = discoveryDocument(url.pathname) ?? openApiDocument(url.pathname)
      const reads = request.method === 'GET' || request.method === 'HEAD'
      if (document !== undefined && reads) return sendJson(response, 200, document)
      if (workloadPath.test(url.pathname)) return this.#options.workload(request, response)
      const target = parseTarget(url)
      if (!target) throw new StatusError(404, 'the server could not find the requested resource')
      if (isReview(target.resource)) {
        if (request.method !== 'POST') throw notAllowed(request, target)
        return sendJson(response, 201, answerReview(target.resource, caller, await readBody(request)))
      }
      if (target.subresource !== undefined) return this.#serveSubresource(request, response, target)
      if (reads) return this.#read(request, response, target)
      await this.#write(request, response, target)
    } catch (error) {
      fail(response, StatusError.from(error))
    }
  }

  #read(request: IncomingMessage, response: ServerResponse, target: RequestTarget): void {
    const shape = shapeOf(request.headers.accept)
    if (['true', '1'].includes(target.query.get('watch') ?? '')) {
      serveWatch({ store: this.#store, target, response, shape, now: Date.now })
    } else {
      sendJson(response, 200, readDocument(this.#store, target, shape, Date.now()))
    }
  }

  async #write(request: IncomingMessage, response: ServerResponse, target: RequestTarget): Promise<void> {
    const verbs: Record<string, string> = { POST: 'create', PUT: 'update', PATCH: 'patch', DELETE: 'delete' }
    const verb = verbs[request.method ?? '']
    const onCollection = target.name === undefined
    if (!verb || !target.resource.verbs.includes(verb) || onCollection !== (verb === 'create')) {
      throw notAllowed(request, target)
    }
    const write = { target, contentType: request.headers['content-type'] ?? '', body: await readBody(request) }
    if (verb === 'create') return sendJson(response, 201, this.#objects.create(write))
    if (verb === 'update') return sendJson(response, 200, this.#objects.replace(write))
    if (verb === 'patch') return sendJson(response, this.#objects.has(target) ? 200 : 201, this.#objects.patch(write))
    sendJson(response, 200, this.#objects.delete(write))
  }

  #serveSubresource(request: IncomingMessage, response: ServerResponse, target: RequestTarget): void {
    const { resource, namespace, name = '', subresource, query } = target
    if (!resource.subresources.some((served) => served.name === subresource)) {
      throw new StatusError(404, `the API double serves no ${resource.name}/${subresource}`)
    }
    const pod = this.#store.get({ resource, namespace, name })
    if (subresource !== 'log') throw new StatusError(400, 'Upgrade request required')
    if (request.method !== 'GET') throw notAllowed(request, target)
    const { logLineEveryMs: lineEveryMs, pastLogLines: pastLines } = this.#options
    serveLog(pod, query, response, { lineEveryMs, pastLines, now: Date.now })
  }

  #upgrade(request: IncomingMessage, socket: Socket, head: Buffer): void {
    socket.on('error', () => undefined)
    this.#upgraded.add(socket)
    socket.once('close', () => this.#upgraded.delete(socket))
    try {
      const url = urlOf(request)
      callerOf(request, this.#options.token)
      const target = parseTarget(url)
      const serve = upgrades.get(target?.subresource ?? '')
      if (!target || !serve) throw new StatusError(404, 'the API double upgrades pods/exec and pods/portforward only')
      const { resource, namespace, name = '', query } = target
      const pod = this.#store.get({ resource, namespace, name })
      const container = query.get('container')
      if (container && !containersOf(pod).some((candidate) => candidate.name === container)) {
        throw new StatusError(400, `container ${container} is not valid for pod ${name}`)
      }
      if (request.headers.upgrade?.toLowerCase() !== 'websocket' || !offersChannels(request)) {
        throw new StatusError(400, 'the API double speaks WebSocket with v5.channel.k8s.io or v4.channel.k8s.io')
      }
      serve(request, socket, head, query)
    } catch (error) {
      refuseUpgrade(socket, StatusError.from(error))
    }
  }
}

function urlOf(request: IncomingMessage): URL {
  const target = request.url ?? ''
  if (!target.startsWith('/')) throw new StatusError(400, 'the request names no path')
  return new URL(`https://api${target.startsWith('//') ? target.replace(/^\/+/, '/') : target}`)
}

/** @throws StatusError 400, 413, 415; an empty body is undefined */
async function readBody(request: IncomingMessage): Promise<unknown> {
  const chunks: Buffer[] = []
  let bytes = 0
  for await (const chunk of request as AsyncIterable<Buffer>) {
    bytes += chunk.length
    if (bytes > maxBodyBytes) throw new StatusError(413, `the API double takes at most ${maxBodyBytes} bytes`)
    chunks.push(chunk)
  }
  if (bytes === 0) return undefined
  const type = request.headers['content-type'] ?? 'application/json'
  if (type.startsWith(protobufType)) return decodeKubernetesProtobuf(Buffer.concat(chunks))
  if (!/[/+]json\b/.test(type) && !type.startsWith(applyType))
    throw new StatusError(415, `the API double reads JSON, not ${JSON.stringify(type)}`)
  try {
    return JSON.parse(Buffer.concat(chunks).toString())
  } catch {
    throw new StatusError(400, 'the body is no JSON')
  }
}

function notAllowed(request: IncomingMessage, { resource }: RequestTarget): StatusError {
  return new StatusError(405, `the API double does not allow ${request.method} on ${resource.name} here`)
}

function sendJson(response: ServerResponse, code: number, body: unknown): void {
  response.writeHead(code, { 'Content-Type': 'application/json' })
  response.end(JSON.stringify(body))
}

function fail(response: ServerResponse, error: StatusError): void {
  if (response.headersSent) return void response.destroy()
  if (error.code === 413) response.setHeader('Connection', 'close') // the rest of the body is not read
  sendJson(response, error.code, error.toStatus())
}

function refuseUpgrade(socket: Socket, error: StatusError): void {
  const body = JSON.stringify(error.toStatus())
  const head = [
    `HTTP/1.1 ${error.code} ${error.reason}`,
    'Content-Type: application/json',
    `Content-Length: ${Buffer.byteLength(body)}`,
    'Connection: close',
  ]
  socket.end(`${head.join('\r\n')}\r\n\r\n${body}`)
}
