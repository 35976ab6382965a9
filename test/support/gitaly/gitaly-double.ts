import { createHmac, timingSafeEqual } from 'node:crypto'
import { type DescMessage, fromBinary, type MessageShape, toBinary } from '@bufbuild/protobuf'
import * as grpc from '@grpc/grpc-js'
import {
  CommitIsAncestorRequestSchema,
  CommitIsAncestorResponseSchema,
  GetBlobsRequestSchema,
  GetBlobsResponseSchema,
  GetTreeEntriesRequestSchema,
  GetTreeEntriesResponseSchema,
  InfoRefsRequestSchema,
  InfoRefsResponseSchema,
  TreeEntryRequestSchema,
  TreeEntryResponseSchema,
} from '../../../src/proto/gen/gitaly_pb.ts'
import {
  blobs,
  commitIsAncestor,
  type GitalyGround,
  GitalyRefusal,
  infoRefs,
  treeEntries,
  treeEntry,
} from './gitaly-answers.ts'
import { type GitalyVersion, gitalyVersions } from './gitaly-versions.ts'

export type GitalyMethod = 'InfoRefsUploadPack' | 'TreeEntry' | 'GetTreeEntries' | 'GetBlobs' | 'CommitIsAncestor'

/** Faults of Gitaly. */
export type GitalyFault =
  /** answers with this status instead */
  | { readonly kind: 'status'; readonly code: number; readonly message: string }
  /** no answer at all, until the caller leaves */
  | { readonly kind: 'silent' }
  /** its answer, once `until` resolves */
  | { readonly kind: 'slow'; readonly until: Promise<void> }
  /** half of the bytes of its first message's data, and a good end */
  | { readonly kind: 'half' }
  /** half as before, then an error */
  | { readonly kind: 'broken' }
  /** bytes that are no message */
  | { readonly kind: 'garbage' }
  /** a good end without a message */
  | { readonly kind: 'nothing' }

export interface GitalyCallRecord {
  readonly method: GitalyMethod
  readonly metadata: Readonly<Record<string, grpc.MetadataValue>>
  /** fields that this double does not know, by number */
  readonly unknownFields: readonly number[]
  readonly request: object
  /** the caller's address: one for each connection */
  readonly peer: string
}

export interface GitalyDoubleOptions {
  /** folder of the repositories */
  readonly folder: string
  readonly version?: GitalyVersion
  /** empty: calls need no token */
  readonly token?: string
  /** a Unix socket to listen on, instead of TCP */
  readonly socket?: string
  /** PEM; absent: plain */
  readonly tls?: { readonly certificate: string; readonly key: string }
  /** bytes of data in one message */
  readonly chunkBytes?: number
}

/** A token is valid for so long before and after its time. */
const tokenWindowSeconds = 60

/**
 * Gitaly's part of doc/reference/tunnel-protocol.md 1.20 over a stock gRPC library, from real bare repositories, with
 * faults that a test sets.
 */
export class GitalyDouble {
  readonly calls: GitalyCallRecord[] = []
  version: GitalyVersion
  token: string
  /** fault of all calls, or of those of one method */
  fault: (GitalyFault & { readonly method?: GitalyMethod }) | undefined
  /** Gitaly's clock, for tokens */
  now: () => number = Date.now
  readonly #options: GitalyDoubleOptions
  #server: grpc.Server | undefined
  #port = 0

  constructor(options: GitalyDoubleOptions) {
    this.#options = options
    this.version = options.version ?? '18.9'
    this.token = options.token ?? 'gitaly-secret'
  }

  static async start(
    t: { teardown(action: () => unknown): void },
    options: GitalyDoubleOptions,
  ): Promise<GitalyDouble> {
    const double = new GitalyDouble(options)
    t.teardown(() => double.leave())
    await double.come()
    return double
  }

  /** Address as GitLab names it. */
  get address(): string {
    const { socket, tls } = this.#options
    if (socket !== undefined) return `unix:${socket}`
    return tls ? `tls://localhost:${this.#port}` : `tcp://127.0.0.1:${this.#port}`
  }

  get port(): number {
    return this.#port
  }

  /** Listens, at the same address as before. */
  async come(): Promise<void> {
    const { socket, tls } = this.#options
    const server = new grpc.Server()
    this.#serve(server, ['SmartHTTPService', 'InfoRefsUploadPack'], InfoRefsRequestSchema, {
      output: InfoRefsResponseSchema,
      answer: infoRefs,
    })
    this.#serve(server, ['CommitService', 'TreeEntry'], TreeEntryRequestSchema, {
      output: TreeEntryResponseSchema,
      answer: treeEntry,
    })
    this.#serve(server, ['CommitService', 'GetTreeEntries'], GetTreeEntriesRequestSchema, {
      output: GetTreeEntriesResponseSchema,
      answer: treeEntries,
    })
    this.#serve(server, ['BlobService', 'GetBlobs'], GetBlobsRequestSchema, {
      output: GetBlobsResponseSchema,
      answer: blobs,
    })
    this.#serve(server, ['CommitService', 'CommitIsAncestor'], CommitIsAncestorRequestSchema, {
      output: CommitIsAncestorResponseSchema,
      answer: commitIsAncestor,
    })
    const pair = tls && { cert_chain: Buffer.from(tls.certificate), private_key: Buffer.from(tls.key) }
    const credentials = pair ? grpc.ServerCredentials.createSsl(null, [pair]) : grpc.ServerCredentials.createInsecure()
    const target = socket === undefined ? `127.0.0.1:${this.#port}` : `unix:${socket}`
    this.#port = await new Promise<number>((resolve, reject) => {
      server.bindAsync(target, credentials, (error, port) => (error ? reject(error) : resolve(port)))
    })
    this.#server = server
  }

  /** Stops listening; connections end. */
  async leave(): Promise<void> {
    this.#server?.forceShutdown()
    this.#server = undefined
  }

  /** Calls of one method. */
  of(method: GitalyMethod): GitalyCallRecord[] {
    return this.calls.filter((call) => call.method === method)
  }

  #serve<I extends DescMessage, O extends DescMessage>(
    server: grpc.Server,
    [service, method]: readonly [string, GitalyMethod],
    input: I,
    { output, answer }: { output: O; answer: Answer<I, O> },
  ): void {
    const handler = (call: grpc.ServerWritableStream<MessageShape<I>, Buffer>) => {
      this.#handle(method, call, (ground) => encoded(output, answer(call.request, ground))).catch((error: unknown) => {
        const { code, message } =
          error instanceof GitalyRefusal ? error : { code: grpc.status.INTERNAL, message: String(error) }
        call.emit('error', Object.assign(new Error(message), { code, details: message }))
      })
    }
    const decode = (bytes: Buffer) => fromBinary(input, bytes)
    server.register(`/gitaly.${service}/${method}`, handler, (bytes: Buffer) => bytes, decode, 'serverStream')
  }

  async #handle(
    method: GitalyMethod,
    call: grpc.ServerWritableStream<object, Buffer>,
    answer: (ground: GitalyGround) => AsyncIterable<Buffer>,
  ): Promise<void> {
    const { $unknown = [] } = call.request as { $unknown?: { no: number }[] }
    const unknownFields = $unknown.map(({ no }) => no)
    this.calls.push({
      method,
      metadata: call.metadata.getMap(),
      unknownFields,
      request: call.request,
      peer: call.getPeer(),
    })
    this.#authenticate(call.metadata)
    const { fault } = this
    const applies = fault && (fault.method === undefined || fault.method === method) ? fault : undefined
    if (applies?.kind === 'silent') return
    if (applies?.kind === 'nothing') return void call.end()
    if (applies?.kind === 'status') throw new GitalyRefusal(applies.code, applies.message)
    if (applies?.kind === 'garbage') {
      call.write(Buffer.from([0x0f, 0xff, 0xff]))
      return void call.end()
    }
    if (applies?.kind === 'slow') await applies.until
    const { folder, chunkBytes = 128 << 10 } = this.#options
    const ground = { folder, traits: gitalyVersions[this.version], chunkBytes }
    const cut = applies?.kind === 'half' || applies?.kind === 'broken'
    for await (const message of answer(cut ? { ...ground, chunkBytes: 40 } : ground)) {
      if (call.cancelled) return
      call.write(message)
      if (cut) break
    }
    if (applies?.kind === 'broken') throw new GitalyRefusal(grpc.status.UNAVAILABLE, 'git ended')
    call.end()
  }

  /** Checks authentication v2, as a Gitaly with a token does. */
  #authenticate(metadata: grpc.Metadata): void {
    if (this.token === '') return
    const [authorization] = metadata.get('authorization')
    if (authorization === undefined) throw new GitalyRefusal(grpc.status.UNAUTHENTICATED, 'authentication required')
    const [, hmac = '', seconds = ''] = /^Bearer v2\.([0-9a-f]{64})\.(\d+)$/.exec(String(authorization)) ?? []
    const expected = createHmac('sha256', this.token).update(seconds).digest()
    if (hmac === '' || !timingSafeEqual(expected, Buffer.from(hmac, 'hex'))) {
      throw new GitalyRefusal(grpc.status.PERMISSION_DENIED, 'permission denied')
    }
    if (Math.abs(this.now() / 1000 - Number(seconds)) > tokenWindowSeconds) {
      throw new GitalyRefusal(grpc.status.PERMISSION_DENIED, 'permission denied: token has expired')
    }
  }
}

type Answer<I extends DescMessage, O extends DescMessage> = (
  request: MessageShape<I>,
  ground: GitalyGround,
) => AsyncIterable<MessageShape<O>>

async function* encoded<O extends DescMessage>(
  output: O,
  messages: AsyncIterable<MessageShape<O>>,
): AsyncGenerator<Buffer> {
  for await (const message of messages) yield Buffer.from(toBinary(output, message))
}
