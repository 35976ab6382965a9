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
  /**
   * returns the server at the coordinates' address; called for each call, since an unused server may have been closed
   */
  readonly server: () => GitalyServer
  /** returns the feature flags that GitLab sets now */
  readonly features: () => GitalyCoordinates['features']
  readonly clock: Clock
}

/** Characters of Gitaly's message that an error quotes. */
const maxMessageChars = 200

/** Messages of one answer at most: Gitaly sends 100 tree entries in one message, and each small file in its own. */
export const maxMessages = 110_000
/** messages in one turn of the event loop: small ones come by the ten thousand */
const messagesOfTurn = 100
/** Fields of one message at most: Gitaly sends 100 tree entries in one. */
const maxFields = 1000

/** Names that gRPC metadata permits; binary values (`-bin`) are left out. */
const featureName = /^(?!grpc-)[0-9a-z_.-]{1,200}(?<!-bin)$/
const featureValue = /^[\x20-\x7e]{0,1000}$/

/** A unary method counts too: on the wire, its answer is a stream of one message. */
type GitalyMethod = DescMethodServerStreaming | DescMethodUnary

/** Calls about one repository. */
export class GitalyCalls {
  /** the repository, as requests name it */
  readonly repository: Repository
  /** queue of the newest poll; reads of what it found use the same */
  queue: CallQueue = 'pushes'
  readonly #token: string
  /** tenant of the repository */
  readonly #source: string
  readonly #components: GitalyCallsComponents
  readonly #stopped = new AbortController()
  /** turns of the running calls */
  readonly #turns = new Set<CallTurn>()

  constructor({ repository, token }: GitalyCoordinates, components: GitalyCallsComponents) {
    const gitAlternateObjectDirectories = [...repository.gitAlternateObjectDirectories]
    this.repository = create(RepositorySchema, { ...repository, gitAlternateObjectDirectories })
    this.#token = token
    this.#source = rootGroupOf(repository.glProjectPath || repository.relativePath)
    this.#components = components
  }

  /** Calls a method. @throws KasError STATUS from Gitaly, REPOSITORY_FAILED, SHUTTING_DOWN; the signal's reason */
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

  /** Sets the queue of a poll that begins. While calls run, only a more urgent queue replaces theirs. */
  begin(queue: CallQueue): void {
    if (this.#turns.size === 0 || isMoreUrgent(queue, this.queue)) this.queue = queue
  }

  /** Moves running and later calls to a more urgent queue: a caller waits for them. */
  hurry(queue: CallQueue): void {
    if (isMoreUrgent(queue, this.queue)) this.queue = queue
    for (const turn of this.#turns) this.#components.server().hurry(turn, queue)
  }

  /** Ends the running calls. */
  stop(): void {
    this.#stopped.abort(new KasError({ code: 'SHUTTING_DOWN' }))
  }
}

export function isStatus(error: unknown, grpc: number): error is KasError {
  return error instanceof KasError && error.spec.code === 'STATUS' && error.spec.grpc === grpc
}

/** Converts Gitaly's status to an error of kas; returns other errors as they are. */
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
 * Returns the metadata of a call. It contains token authentication v2 if there is a token, and the feature flags that
 * metadata can carry (doc/reference/tunnel-protocol.md 1.20).
 *
 * @param nowMs - milliseconds since 1970: Gitaly refuses old timestamps
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
