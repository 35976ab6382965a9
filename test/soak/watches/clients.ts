import { spawn } from 'node:child_process'
import { createInterface } from 'node:readline'
import { WebSocket } from 'ws'
import type { Warden } from '../../../dev/control-plane/warden.ts'
import type { Caller } from '../../../dev/demo/caller.ts'
import { readProtobufEvent } from '../../../src/kas/servers/kubernetes/watch/resume/protobuf-event.ts'
import { delay } from '../../../src/lib/signals.ts'
import { Reader } from '../../../src/proto/wire/wire.ts'
import type { KubectlPlace } from '../exactly-once/kubectl-call.ts'
import type { KubeOptions } from '../kube.ts'
import { counterName } from './counter.ts'
import { Seen } from './seen.ts'

/** Clients that watch the counter through one replica, each in its own way. */

export interface WatchedPlace {
  readonly caller: Caller
  /** path of the Leases */
  readonly path: string
  readonly signal: AbortSignal
}

type Read = (body: AsyncIterable<Uint8Array>, seen: Seen) => Promise<void>

interface Way {
  readonly query: (resourceVersion: string) => string
  readonly accept?: string
  readonly read: Read
}

const table = 'application/json;as=Table;v=v1;g=meta.k8s.io'
const protobuf = 'application/vnd.kubernetes.protobuf'

export const ways: Readonly<Record<string, Way>> = {
  'by resourceVersion': { query: (version) => `resourceVersion=${version}`, read: readJson },
  'without resourceVersion': { query: () => '', read: readJson },
  'resourceVersion 0': { query: () => 'resourceVersion=0', read: readJson },
  sendInitialEvents: {
    query: () => 'sendInitialEvents=true&resourceVersionMatch=NotOlderThan&allowWatchBookmarks=true',
    read: readJson,
  },
  'a Table': { query: (version) => `resourceVersion=${version}`, accept: table, read: readJson },
  'in protobuf': { query: (version) => `resourceVersion=${version}`, accept: protobuf, read: readProtobuf },
}

/** A plain client, which neither repeats a request nor begins again. */
export function watchPlainly(name: string, resourceVersion: string, { caller, path, signal }: WatchedPlace): Seen {
  const { query, accept = 'application/json', read } = ways[name] as Way
  const seen = new Seen(name)
  const url = `${watchOf(path)}&${query(resourceVersion)}`
  void (async () => {
    const { statusCode, body } = await caller.open(url, { signal, headers: { accept } })
    if (statusCode !== 200) throw new Error(`HTTP ${statusCode}`)
    await read(body, seen)
  })().then(
    () => seen.ended('in order'),
    (error: unknown) => seen.ended(String(error)),
  )
  return seen
}

/** pause before it begins again. ms */
const retryMs = 200

/** A client that resumes its watch after each end, as clients of API servers do. */
export function watchAgain(resourceVersion: string, { caller, path, signal }: WatchedPlace): Seen {
  const seen = new Seen('one that begins anew')
  let version = resourceVersion
  void (async () => {
    while (!signal.aborted) {
      seen.watches++
      try {
        const { statusCode, body } = await caller.open(`${watchOf(path)}&resourceVersion=${version}`, { signal })
        if (statusCode === 200) for await (const event of eventsIn(body)) version = see(event, seen) ?? version
        else await body.dump()
      } catch {
        // cut, or nothing listens: all events so far are complete
      }
      await delay(retryMs)
    }
  })()
  return seen
}

/** A client as a page of GitLab: over a WebSocket, which it does not open again. */
export function watchByPage(
  resourceVersion: string,
  { server, ca, credential }: KubeOptions,
  { namespace, signal }: { namespace: string; signal: AbortSignal },
): Seen {
  const seen = new Seen('over WebSocket')
  const socket = new WebSocket(new URL('/watch', server.replace(/^http/, 'ws')), ['gitlab-agent-watch-api'], {
    ca,
    headers: { authorization: `Bearer ${credential}` },
    perMessageDeflate: false,
  })
  const watch_params = {
    group: 'coordination.k8s.io',
    version: 'v1',
    resource: 'leases',
    namespace,
    field_selector: `metadata.name=${counterName}`,
    resource_version: resourceVersion,
  }
  socket.once('open', () => socket.send(JSON.stringify({ type: 'watch', watch_id: 'counter', watch_params })))
  socket.on('message', (text) => {
    const { type, watchEvent, error } = JSON.parse(String(text))
    if (type === 'watch') see(watchEvent, seen)
    else seen.ended(error.message)
  })
  socket.on('error', (error) => seen.ended(String(error)))
  socket.once('close', (code) => seen.ended(`closed with ${code}`))
  signal.addEventListener('abort', () => socket.terminate(), { once: true })
  return seen
}

/** `kubectl get lease counter --watch`, by its output. */
export function watchByKubectl(
  output: readonly string[],
  { program, kubeconfig, cacheFolder, namespace }: KubectlPlace,
  { warden, signal }: { warden: Warden; signal: AbortSignal },
): Seen {
  const seen = new Seen(`kubectl get -w ${output.join(' ')}`, { asksFirst: true })
  const { PATH = '' } = process.env
  const place = [`--kubeconfig=${kubeconfig}`, `--namespace=${namespace}`]
  const child = spawn(program, [...place, 'get', 'lease', counterName, '--watch', ...output], {
    env: { PATH, HOME: cacheFolder, KUBECACHEDIR: cacheFolder, ...warden.environment },
    stdio: ['ignore', 'pipe', 'pipe'],
  })
  let said = ''
  child.stderr.on('data', (chunk) => {
    said += chunk
  })
  createInterface({ input: child.stdout }).on('line', (line) => {
    const value = /^(?:counter\s+)?(\d+)(?:\s|$)/.exec(line)?.[1]
    if (value !== undefined) seen.saw(Number(value))
  })
  child.once('close', (code) => seen.ended(`exit status ${code}: ${said}`))
  signal.addEventListener('abort', () => child.kill(), { once: true })
  return seen
}

const watchOf = (path: string) => `${path}?watch=1&fieldSelector=metadata.name%3D${counterName}`

interface Event {
  readonly type: string
  readonly object: {
    readonly kind?: string
    readonly metadata: { readonly resourceVersion?: string }
    readonly spec?: { readonly holderIdentity: string }
    readonly rows?: readonly { readonly cells: readonly unknown[] }[]
  }
}

async function readJson(body: AsyncIterable<Uint8Array>, seen: Seen): Promise<void> {
  for await (const event of eventsIn(body)) see(event, seen)
}

async function* eventsIn(body: AsyncIterable<Uint8Array>): AsyncGenerator<Event, void, void> {
  const decoder = new TextDecoder()
  let rest = ''
  for await (const chunk of body) {
    const lines = (rest + decoder.decode(chunk, { stream: true })).split('\n')
    rest = lines.pop() ?? ''
    for (const line of lines) yield JSON.parse(line)
  }
}

/** @returns version after which the watch can go on. @throws Error: an event ERROR */
function see({ type, object }: Event, seen: Seen): string | undefined {
  if (type === 'ERROR') throw new Error(JSON.stringify(object))
  const holder = object.kind === 'Table' ? object.rows?.[0]?.cells[1] : object.spec?.holderIdentity
  if (type !== 'BOOKMARK') seen.saw(Number(holder))
  return object.metadata.resourceVersion
}

async function readProtobuf(body: AsyncIterable<Uint8Array>, seen: Seen): Promise<void> {
  let bytes = Buffer.alloc(0)
  for await (const chunk of body) {
    bytes = Buffer.concat([bytes, chunk])
    while (bytes.length >= 4 && bytes.length >= 4 + bytes.readUInt32BE(0)) {
      const frame = bytes.subarray(0, 4 + bytes.readUInt32BE(0))
      bytes = bytes.subarray(frame.length)
      const type = readProtobufEvent(frame)?.type
      if (type !== 'ADDED' && type !== 'MODIFIED') throw new Error(`an event ${type}`)
      seen.saw(holderIn(frame))
    }
  }
}

/** Reads Lease.spec.holderIdentity in Unknown.raw, after `k8s\0`, in WatchEvent.object.raw. */
function holderIn(frame: Buffer): number {
  const object = field(field(frame.subarray(4), 2), 1)
  const spec = field(field(object.subarray(4), 2), 2)
  return Number(field(spec, 1).toString())
}

function field(bytes: Buffer, number: number): Buffer {
  const reader = new Reader(bytes)
  while (reader.next()) if (reader.field === number) return reader.bytes
  throw new Error(`no field ${number}`)
}
