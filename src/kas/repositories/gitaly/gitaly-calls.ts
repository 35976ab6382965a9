import { createHmac } from 'node:crypto'
import { setImmediate } from 'node:timers/promises'
import {
  create,
  type DescMessage,
  type DescMethodServerStreaming,
  type DescMethodUnary,
  type MessageShape,
  toBinary,
} from '@bufbuild/protobuf'
import type { Metadata } from '../../../call/call.ts'
import type { Clock } from '../../../lib/clock.ts'
import { goCodeName, KasError } from '../../../lib/errors.ts'
import { linkedController } from '../../../lib/signals.ts'
import { decodeMessage } from '../../../proto/decode.ts'
import { type Repository, RepositorySchema } from '../../../proto/gen/gitaly_pb.ts'
import { methodPath } from '../../../proto/unary.ts'
import { fieldCount } from '../../../proto/wire/field-count.ts'
import { rootGroupOf } from '../../agent.ts'
import { type CallQueue, type CallTurn, isMoreUrgent } from './gitaly-call-limit.ts'
import type { GitalyCoordinates } from './gitaly-coordinates.ts'
import type { GitalyServer } from './gitaly-server.ts'

export interface GitalyCallsComponents {
  /** of the address that the coordinates name; asked for each call, for it may have been forgotten */
  readonly server: () => GitalyServer
  /** what GitLab wants sent along now */
  readonly features: () => GitalyCoordinates['features']
  readonly clock: Clock
}

/** Of Gitaly's own message, what an error quotes. */
const maxMessageChars = 200

/** Of one answer: Gitaly sends 100 entries of a tree in one, and each small file in one of its own. */
export const maxMessages = 110_000
/** in one turn of the event loop: small ones come by the ten thousand */
const messagesOfTurn = 100
/** Fields of one message: entries of a tree, and Gitaly sends 100 of them. */
const maxFields = 1000

/** What a name of gRPC metadata may hold; binary values (`-bin`) have no form here. */
const featureName = /^(?!grpc-)[0-9a-z_.-]{1,200}(?<!-bin)$/
const featureValue = /^[\x20-\x7e]{0,1000}$/

/** On the wire, one answer is a stream of one. */
type GitalyMethod = DescMethodServerStreaming | DescMethodUnary

/** Calls about one repository. */
export class GitalyCalls {
  /** for requests */
  readonly repository: Repository
  /** of the newest poll: what it found is read in the same */
  queue: CallQueue = 'pushes'
  readonly #token: string
  /** whose repository it is */
  readonly #source: string
  readonly #components: GitalyCallsComponents
  readonly #stopped = new AbortController()
  /** of calls that run */
  readonly #turns = new Set<CallTurn>()

  constructor({ repository, token }: GitalyCoordinates, components: GitalyCallsComponents) {
    const gitAlternateObjectDirectories = [...repository.gitAlternateObjectDirectories]
    this.repository = create(RepositorySchema, { ...repository, gitAlternateObjectDirectories })
    this.#token = token
    this.#source = rootGroupOf(repository.glProjectPath || repository.relativePath)
    this.#components = components
  }

  /** @throws KasError STATUS as Gitaly said, REPOSITORY_FAILED, SHUTTING_DOWN; the signal's reason */
  async *call<Method extends GitalyMethod>(
    method: Method,
    request: MessageShape<Method['input']>,
    signal: AbortSignal | undefined,
  ): AsyncGenerator<MessageShape<Method['output']>, void, void> {
    const { server, features, clock } = this.#components
    const call = {
      method: methodPath(method),
      request: toBinary(method.input, request),
      turn: { queue: this.queue, source: this.#source },
      metadata: () => gitalyMetadata({ token: this.#token, features: features() }, clock.now()),
    }
    const ended = linkedController(this.#stopped.signal, signal)
    this.#turns.add(call.turn)
    try {
      let count = 0
      for await (const message of server().call(call, ended.signal)) {
        if (++count > maxMessages) throw faulty(method, `more than ${maxMessages} messages`)
        if (count % messagesOfTurn === 0) await setImmediate()
        yield decoded<Method['output']>(method, message)
      }
    } finally {
      this.#turns.delete(call.turn)
      ended.dispose()
    }
  }

  /** Of a poll that begins: who waits already does not wait for longer. */
  begin(queue: CallQueue): void {
    if (this.#turns.size === 0 || isMoreUrgent(queue, this.queue)) this.queue = queue
  }

  /** Somebody waits for what is asked now. */
  hurry(queue: CallQueue): void {
    if (isMoreUrgent(queue, this.queue)) this.queue = queue
    for (const turn of this.#turns) this.#components.server().hurry(turn, queue)
  }

  /** Ends the calls that run. */
  stop(): void {
    this.#stopped.abort(new KasError({ code: 'SHUTTING_DOWN' }))
  }
}

export function isStatus(error: unknown, grpc: number): error is KasError {
  return error instanceof KasError && error.spec.code === 'STATUS' && error.spec.grpc === grpc
}

/** Gitaly's status in words of ours; what is ours already stays. */
export function failed(method: string, error: unknown): unknown {
  if (!(error instanceof KasError) || error.spec.code !== 'STATUS') return error
  const { grpc, message } = error.spec
  const detail = `Gitaly's ${method}: ${goCodeName(grpc) ?? grpc}: ${message.slice(0, maxMessageChars)}`
  return new KasError({ code: 'REPOSITORY_FAILED', detail }, { cause: error })
}

function decoded<T extends DescMessage>(
  method: GitalyMethod & { readonly output: T },
  bytes: Uint8Array,
): MessageShape<T> {
  try {
    if (fieldCount(bytes, maxFields) <= maxFields) return decodeMessage(method.output, bytes)
  } catch (cause) {
    const detail = `Gitaly sent what is no ${method.output.typeName}`
    throw new KasError({ code: 'REPOSITORY_FAILED', detail }, { cause })
  }
  throw faulty(method, `a message of more than ${maxFields} fields`)
}

function faulty({ name }: GitalyMethod, what: string): KasError {
  return new KasError({ code: 'REPOSITORY_FAILED', detail: `Gitaly's ${name}: ${what}` })
}

/**
 * The metadata of a call: token authentication v2 when there is a token, and features as they are, but for those that
 * metadata cannot carry (doc/reference/tunnel-protocol.md 1.20).
 *
 * @param nowMs - milliseconds since 1970: a Gitaly refuses what is older than a while
 */
export function gitalyMetadata(
  { token, features }: Pick<GitalyCoordinates, 'token' | 'features'>,
  nowMs: number,
): Metadata {
  const sendable = Object.entries(features)
    .map(([name, value]) => [name.toLowerCase(), value] as const)
    .filter(([name, value]) => featureName.test(name) && featureValue.test(value))
    .map(([name, value]) => [name, [value]])
  return { ...Object.fromEntries(sendable), ...(token === '' ? {} : { authorization: [bearer(token, nowMs)] }) }
}

function bearer(token: string, nowMs: number): string {
  const seconds = String(Math.floor(nowMs / 1000))
  return `Bearer v2.${createHmac('sha256', token).update(seconds).digest('hex')}.${seconds}`
}
