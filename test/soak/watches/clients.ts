import { spawn } from 'node:child_process'
import { createInterface } from 'node:readline'
import type { Warden } from '../../../dev/control-plane/warden.ts'
import type { Caller } from '../../../dev/demo/caller.ts'
import { readProtobufEvent } from '../../../src/kas/servers/kubernetes/watch/resume/protobuf-event.ts'
import { Reader } from '../../../src/proto/wire/wire.ts'
import type { KubectlPlace } from '../exactly-once/kubectl-call.ts'
import { counterName } from './counter.ts'
import { Seen } from './seen.ts'

/** Clients that watch the counter through one replica, each in its own way. */

export interface WatchedPlace {
  readonly caller: Caller
  /** of the Leases */
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

/** A plain client, which neither repeats nor begins anew. */
export function watchPlainly(name: string, resourceVersion: string, { caller, path, signal }: WatchedPlace): Seen {
  const { query, accept = 'application/json', read } = ways[name] as Way
  const seen = new Seen(name)
  const url = `${path}?watch=1&fieldSelector=metadata.name%3D${counterName}&${query(resourceVersion)}`
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

/** `kubectl get lease counter --watch`, as it prints it. */
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

async function readJson(body: AsyncIterable<Uint8Array>, seen: Seen): Promise<void> {
  for await (const line of createInterface({ input: body as NodeJS.ReadableStream & AsyncIterable<Uint8Array> })) {
    const { type, object } = JSON.parse(line)
    if (type === 'ERROR') throw new Error(line)
    const holder = object.kind === 'Table' ? object.rows?.[0]?.cells?.[1] : object.spec?.holderIdentity
    if (type !== 'BOOKMARK') seen.saw(Number(holder))
  }
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

/** WatchEvent.object.raw, behind `k8s\0` Unknown.raw, Lease.spec.holderIdentity. */
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
