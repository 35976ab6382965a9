import { once } from 'node:events'
import { createServer, type IncomingHttpHeaders, type IncomingMessage, type ServerResponse } from 'node:http'
import type { AddressInfo, Socket } from 'node:net'
import { BinaryReader, WireType } from '@bufbuild/protobuf/wire'
import { eventually } from './eventually.ts'

/** A received span, with the attributes of its resource. */
export interface CollectedSpan {
  readonly service: Readonly<Record<string, unknown>>
  readonly traceId: string
  readonly spanId: string
  /** empty: it is the first of its trace */
  readonly parentId: string
  readonly traceState: string
  /** trace and span ids of its links */
  readonly links: readonly string[]
  readonly name: string
  readonly kind: 'server' | 'client' | undefined
  readonly attributes: Readonly<Record<string, unknown>>
  readonly isError: boolean
  /** message of the status, which must be empty */
  readonly message: string
  readonly isParentRemote: boolean
  readonly durationMs: number
}

const kinds: Readonly<Record<number, 'server' | 'client'>> = { 2: 'server', 3: 'client' }
const errorStatus = 2
const remoteFlag = 0x200

/** A collector of traces: accepts OTLP over HTTP in protobuf, and keeps all spans. */
export class OtlpCollector {
  readonly spans: CollectedSpan[] = []
  readonly requests: { readonly url: string | undefined; readonly headers: IncomingHttpHeaders }[] = []
  /** status of its answers from now on */
  status = 200
  /** body of its answers, unless they are good */
  answer = ''
  /** it accepts requests, and answers none */
  silent = false
  readonly #server = createServer((request, response) => void this.#take(request, response))
  readonly #sockets = new Set<Socket>()

  static async start(t: { teardown(action: () => unknown): void }): Promise<OtlpCollector> {
    const collector = new OtlpCollector()
    collector.#server.on('connection', (socket: Socket) => collector.#sockets.add(socket))
    collector.#server.listen(0, '127.0.0.1')
    await once(collector.#server, 'listening')
    t.teardown(() => collector.close())
    return collector
  }

  /** URL without a path. */
  get url(): string {
    return `http://127.0.0.1:${(this.#server.address() as AddressInfo).port}`
  }

  close(): void {
    for (const socket of this.#sockets) socket.destroy()
    this.#server.close()
  }

  /** Resolves with the spans once there are so many. */
  async collected(count: number): Promise<readonly CollectedSpan[]> {
    return await eventually(() => {
      if (this.spans.length < count) throw new Error(`${this.spans.length} of ${count} spans came`)
      return this.spans
    })
  }

  async #take(request: IncomingMessage, response: ServerResponse): Promise<void> {
    const chunks: Buffer[] = []
    try {
      for await (const chunk of request) chunks.push(chunk)
    } catch {
      return // the caller left
    }
    this.requests.push({ url: request.url, headers: request.headers })
    if (this.silent) return
    if (this.status === 200) this.spans.push(...readRequest(Buffer.concat(chunks)))
    const body = this.status === 200 ? '' : this.answer
    response.writeHead(this.status, { 'content-type': 'application/x-protobuf' }).end(body)
  }
}

type Fields = Map<number, (Uint8Array | bigint)[]>

/** Reads fields by number; lengths stay bytes, all others are numbers of 64 bits. */
function read(bytes: Uint8Array): Fields {
  const reader = new BinaryReader(bytes)
  const fields: Fields = new Map()
  while (reader.pos < reader.len) {
    const [no, type] = reader.tag()
    const values = fields.get(no) ?? []
    fields.set(no, values)
    if (type === WireType.LengthDelimited) values.push(reader.bytes())
    else if (type === WireType.Bit64) values.push(BigInt(reader.fixed64()))
    else if (type === WireType.Bit32) values.push(BigInt(reader.fixed32()))
    else values.push(BigInt(reader.uint64()))
  }
  return fields
}

const messages = (fields: Fields, no: number) => (fields.get(no) ?? []).map((value) => read(value as Uint8Array))
const bytesOf = (fields: Fields, no: number) => Buffer.from((fields.get(no)?.[0] as Uint8Array | undefined) ?? [])
const textOf = (fields: Fields, no: number) => bytesOf(fields, no).toString()
const numberOf = (fields: Fields, no: number) => Number(fields.get(no)?.[0] ?? 0)

/** ExportTraceServiceRequest: resource_spans=1 { resource=1, scope_spans=2 { spans=2 } } */
function readRequest(bytes: Uint8Array): CollectedSpan[] {
  return messages(read(bytes), 1).flatMap((resourceSpans) => {
    const [resource = new Map()] = messages(resourceSpans, 1)
    const service = attributesOf(resource, 1)
    return messages(resourceSpans, 2).flatMap((scope) => messages(scope, 2).map((span) => readSpan(span, service)))
  })
}

function readSpan(span: Fields, service: CollectedSpan['service']): CollectedSpan {
  const [status = new Map()] = messages(span, 15)
  return {
    service,
    traceId: bytesOf(span, 1).toString('hex'),
    spanId: bytesOf(span, 2).toString('hex'),
    traceState: textOf(span, 3),
    parentId: bytesOf(span, 4).toString('hex'),
    name: textOf(span, 5),
    kind: kinds[numberOf(span, 6)],
    durationMs: (numberOf(span, 8) - numberOf(span, 7)) / 1e6,
    attributes: attributesOf(span, 9),
    links: messages(span, 13).map((link) => `${bytesOf(link, 1).toString('hex')} ${bytesOf(link, 2).toString('hex')}`),
    message: textOf(status, 2),
    isError: numberOf(status, 3) === errorStatus,
    isParentRemote: (numberOf(span, 16) & remoteFlag) !== 0,
  }
}

/** KeyValue { key=1, value=2 }, AnyValue { string=1, bool=2, int=3 } */
function attributesOf(fields: Fields, no: number): Record<string, unknown> {
  const entries = messages(fields, no).map((pair) => {
    const [value = new Map()] = messages(pair, 2) as Fields[]
    const known = value.has(1) ? textOf(value, 1) : value.has(3) ? numberOf(value, 3) : value.get(2)?.[0] === 1n
    return [textOf(pair, 1), known] as const
  })
  return Object.fromEntries(entries)
}
