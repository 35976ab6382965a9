/**
 * An API server of one generated cluster: lists, pages, WatchLists and changes of four kinds, access reviews that all
 * are allowed, leases of agentk. It serves TLS and HTTP/1.1. Its settings are its argument, in JSON.
 */
import { once } from 'node:events'
import type { IncomingMessage, ServerResponse } from 'node:http'
import { createServer } from 'node:https'
import type { AddressInfo } from 'node:net'
import { setTimeout as sleep } from 'node:timers/promises'
import { machineTime } from '../support/machine-time.ts'
import type { Change, DoubleQuestion, DoubleSettings, ListsAnswer } from './questions.ts'
import { type KindName, version, World } from './world.ts'

interface Served {
  readonly path: string
  readonly kind: KindName | 'Event'
  readonly apiVersion: string
}

const served: readonly Served[] = [
  { path: '/api/v1/pods', kind: 'Pod', apiVersion: 'v1' },
  { path: '/api/v1/configmaps', kind: 'ConfigMap', apiVersion: 'v1' },
  { path: '/api/v1/events', kind: 'Event', apiVersion: 'v1' },
  { path: '/apis/apps/v1/deployments', kind: 'Deployment', apiVersion: 'apps/v1' },
  { path: '/apis/apps/v1/replicasets', kind: 'ReplicaSet', apiVersion: 'apps/v1' },
]
const withStatus: readonly string[] = ['Pod', 'Deployment', 'ReplicaSet']
const chunkCharacters = 64 * 1024
/** Number of Pods that get each second change: they are on the first page of their namespace. */
const hotPods = 100

const { objects, key, certificate } = JSON.parse(process.argv[2] ?? '') as DoubleSettings
const world = new World(objects)
const asked = Promise.withResolvers<void>()
const released = Promise.withResolvers<void>()
const watchers = new Map<string, Set<{ response: ServerResponse; apiVersion: string }>>()
const leases = new Map<string, object>()
const lists = { begunAt: 0, endedAt: 0, bytes: 0 }

const server = createServer({ key, cert: certificate }, (request, response) => {
  answer(request, response).catch((error: unknown) => response.destroy(error as Error))
})
server.listen(0, '127.0.0.1', () => process.send?.((server.address() as AddressInfo).port))

process.on('message', async (question: DoubleQuestion) => process.send?.((await answerBench(question)) ?? {}))
process.on('disconnect', () => process.exit())

async function answerBench(question: DoubleQuestion): Promise<Change[] | ListsAnswer | undefined> {
  if (question.kind === 'asked') await asked.promise
  else if (question.kind === 'release') released.resolve()
  else if (question.kind === 'lists') return { ...lists }
  else if (question.kind === 'family') await grow(question.children)
  else return await change(question)
  return undefined
}

async function answer(request: IncomingMessage, response: ServerResponse): Promise<void> {
  const { pathname, searchParams } = new URL(request.url ?? '', 'https://double')
  const kind = served.find(({ path }) => path === pathname)
  if (kind && searchParams.has('watch')) await watch(kind, searchParams, request, response)
  else if (kind) await list(kind, searchParams, request, response)
  else if (pathname === '/api' || pathname === '/apis') {
    asked.resolve()
    await released.promise
    response.setHeader('Content-Type', 'application/json;g=apidiscovery.k8s.io;v=v2;as=APIGroupDiscoveryList')
    response.end(JSON.stringify(discovery(pathname)))
  } else if (pathname.startsWith('/apis/authorization.k8s.io/')) say(response, 201, review(pathname))
  else if (pathname.includes('/leases')) await lease(pathname, request, response)
  else if (pathname === '/version') say(response, 200, { major: '1', minor: '35', gitVersion: 'v1.35.0' })
  else if (pathname === '/api/v1/namespaces/ns-00/pods/first') response.end(world.json('Pod', 0, false))
  else say(response, 404, { kind: 'Status', apiVersion: 'v1', status: 'Failure', reason: 'NotFound', code: 404 })
}

function say(response: ServerResponse, status: number, body: object): void {
  response.writeHead(status, { 'Content-Type': 'application/json' }).end(JSON.stringify(body))
}

function discovery(root: string): object {
  const group = root === '/api' ? '' : 'apps'
  const resources = served
    .filter(({ path }) => path.startsWith(`${root}/`))
    .map(({ path, kind, apiVersion }) => {
      const resource = path.slice(path.lastIndexOf('/') + 1)
      const responseKind = { group, version: apiVersion.split('/').at(-1), kind }
      const status = { subresource: 'status', responseKind, verbs: ['get', 'patch', 'update'] }
      const subresources = withStatus.includes(kind) ? [status] : []
      return { resource, responseKind, scope: 'Namespaced', verbs: ['get', 'list', 'watch'], subresources }
    })
  const versions = [{ version: 'v1', resources, freshness: 'Current' }]
  const items = [{ metadata: { name: group }, versions }]
  return { kind: 'APIGroupDiscoveryList', apiVersion: 'apidiscovery.k8s.io/v2', metadata: {}, items }
}

function review(path: string): object {
  const rule = { verbs: ['*'], apiGroups: ['*'], resources: ['*'] }
  return path.endsWith('selfsubjectrulesreviews')
    ? { status: { incomplete: false, resourceRules: [rule], nonResourceRules: [] } }
    : { status: { allowed: true } }
}

async function lease(path: string, request: IncomingMessage, response: ServerResponse): Promise<void> {
  if (request.method === 'GET') {
    const known = leases.get(path)
    return say(response, known ? 200 : 404, known ?? { kind: 'Status', code: 404 })
  }
  let body = ''
  for await (const chunk of request) body += chunk
  const written = JSON.parse(body) as { metadata: { name: string; resourceVersion?: string } }
  written.metadata.resourceVersion = String(Number(written.metadata.resourceVersion ?? 0) + 1)
  leases.set(request.method === 'POST' ? `${path}/${written.metadata.name}` : path, written)
  say(response, request.method === 'POST' ? 201 : 200, written)
}

const isMetadata = (request: IncomingMessage) => request.headers.accept?.includes('PartialObjectMetadata') === true

/** Writes `count` texts, as fast as they are read. */
async function write(response: ServerResponse, count: number, text: (place: number) => string): Promise<void> {
  let chunk = ''
  const flush = async () => {
    lists.bytes += chunk.length
    if (!response.write(chunk)) await Promise.race([once(response, 'drain'), once(response, 'close')])
    chunk = ''
    await new Promise((resolve) => setImmediate(resolve)) // lets other requests proceed
  }
  for (let place = 0; place < count && !response.destroyed; place++) {
    chunk += text(place)
    if (chunk.length >= chunkCharacters) await flush()
  }
  if (chunk) await flush()
  lists.endedAt = machineTime()
}

function begin(): void {
  lists.begunAt ||= machineTime()
}

async function list(of: Served, query: URLSearchParams, request: IncomingMessage, response: ServerResponse) {
  const { kind, apiVersion } = of
  begin()
  const all = kind === 'Event' ? 0 : world.count(kind)
  const from = Number(query.get('continue') ?? 0)
  const to = Math.min(all, from + Number(query.get('limit') || all))
  const next = to < all ? `,"continue":"${to}"` : ''
  response.setHeader('Content-Type', 'application/json')
  response.write(
    `{"kind":"${kind}List","apiVersion":"${apiVersion}","metadata":{"resourceVersion":"${version}"${next}},"items":[`,
  )
  const half = isMetadata(request)
  await write(response, to - from, (i) => `${i ? ',' : ''}${world.json(kind as KindName, from + i, half)}`)
  response.end(']}')
}

async function watch(of: Served, query: URLSearchParams, request: IncomingMessage, response: ServerResponse) {
  const { kind, apiVersion } = of
  response.writeHead(200, { 'Content-Type': 'application/json' })
  response.flushHeaders()
  if (query.has('sendInitialEvents')) {
    begin()
    const half = isMetadata(request)
    const count = kind === 'Event' ? 0 : world.count(kind)
    await write(response, count, (place) =>
      event('ADDED', apiVersion, kind as KindName, world.json(kind as KindName, place, half)),
    )
    const metadata = { resourceVersion: version, annotations: { 'k8s.io/initial-events-end': 'true' } }
    response.write(`${JSON.stringify({ type: 'BOOKMARK', object: { kind, apiVersion, metadata } })}\n`)
  }
  const watcher = { response, apiVersion }
  const all = watchers.get(kind) ?? new Set()
  watchers.set(kind, all.add(watcher))
  response.once('close', () => all.delete(watcher))
}

/** Returns a watch event, in which the object has its kind. */
function event(type: string, apiVersion: string, kind: KindName, json: string): string {
  const named = json.startsWith('{"apiVersion"')
    ? json
    : `{"apiVersion":"${apiVersion}","kind":"${kind}",${json.slice(1)}`
  return `{"type":"${type}","object":${named}}\n`
}

async function change({ perSecond, seconds, among }: DoubleQuestion & { kind: 'change' }): Promise<Change[]> {
  const changes: Change[] = []
  const isFamily = among === 'family'
  const [from, count] = isFamily ? [world.familyFrom, world.family] : [0, world.count('Pod')]
  const hot = Math.min(hotPods, isFamily ? count : world.firstPods)
  const begun = machineTime()
  for (let i = 0; i < perSecond * seconds; i++) {
    const waitMs = begun + (i * 1000) / perSecond - machineTime()
    if (waitMs > 0) await sleep(waitMs)
    const place = from + (i % 2 === 0 ? (i / 2) % hot : (i * 7919) % count)
    const restarts = ++restartsSoFar
    const { uid, json } = world.restart(place, restarts)
    for (const { response, apiVersion } of watchers.get('Pod') ?? []) {
      response.write(event('MODIFIED', apiVersion, 'Pod', json))
    }
    if (place < from + hot) changes.push({ uid, restarts, at: machineTime() })
  }
  return changes
}

let restartsSoFar = 0

async function grow(children: number): Promise<void> {
  const from = world.count('Pod')
  const set = world.count('ReplicaSet')
  world.family = children
  await tellAdded('ReplicaSet', set, 1)
  await tellAdded('Pod', from, children)
}

async function tellAdded(kind: KindName, from: number, count: number): Promise<void> {
  for (const { response, apiVersion } of watchers.get(kind) ?? []) {
    await write(response, count, (i) => event('ADDED', apiVersion, kind, world.json(kind, from + i, false)))
  }
}
