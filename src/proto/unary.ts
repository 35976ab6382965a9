import {
  type DescMessage,
  type DescMethod,
  type DescService,
  type Message,
  type MessageShape,
  toBinary,
} from '@bufbuild/protobuf'
import { Code, KasError } from '../lib/errors.ts'
import { decodeMessage } from './decode.ts'
import type { ClientSession, OpenOptions } from './grpc/client-session.ts'
import type { Handler } from './grpc/server-stream.ts'

/** Unary methods: one message in, one out. */

/** One unary method, on bytes. */
export type UnaryMethod = (request: Uint8Array) => Promise<Uint8Array>

/** methods by `/package.Service/Method` */
export type UnaryMethods = ReadonlyMap<string, UnaryMethod>

/** Implementation of a service by the local names of its methods, all unary. */
export type UnaryImplementation<Service extends DescService> = {
  [Name in keyof Service['method']]: (
    request: MessageShape<Service['method'][Name]['input']>,
  ) => Promise<MessageShape<Service['method'][Name]['output']>>
}

/** Path of a method in a call: `/package.Service/Method`. */
export function methodPath({ parent, name }: Pick<DescMethod, 'parent' | 'name'>): string {
  return `/${parent.typeName}/${name}`
}

/** Methods of a service by their paths. They throw INVALID_MESSAGE for bytes that are no request. */
export function unaryService<Service extends DescService>(
  service: Service,
  implementation: UnaryImplementation<Service>,
): UnaryMethods {
  return new Map(
    service.methods.map((method) => {
      const handle = implementation[method.localName] as unknown as (request: Message) => Promise<Message>
      const serve: UnaryMethod = async (request) =>
        toBinary(method.output, await handle(decodeMessage(method.input, request)))
      return [methodPath(method), serve]
    }),
  )
}

/**
 * Reads the only message of a stream.
 *
 * @throws KasError INVALID_MESSAGE: there is none, or more than one
 */
export async function readOne<I extends DescMessage>(
  input: I,
  messages: AsyncIterable<Uint8Array>,
): Promise<MessageShape<I>> {
  return decodeMessage(input, await readOneMessage(messages))
}

/** As `readOne`, without decoding. */
export async function readOneMessage(messages: AsyncIterable<Uint8Array>): Promise<Uint8Array> {
  let request: Uint8Array | undefined
  for await (const message of messages) {
    if (request) throw new KasError({ code: 'INVALID_MESSAGE', detail: 'more than one request message' })
    request = message
  }
  if (!request) throw new KasError({ code: 'INVALID_MESSAGE', detail: 'no request message' })
  return request
}

/** Serves a unary method as a stream. */
export function serveUnary(method: UnaryMethod): Handler {
  return async (stream) => {
    await stream.send(await method(await readOneMessage(stream.messages)))
  }
}

/**
 * Calls a unary method.
 *
 * @throws KasError
 */
export async function callUnary<I extends DescMessage, O extends DescMessage>(
  session: ClientSession,
  input: I,
  output: O,
  request: MessageShape<I>,
  options: OpenOptions,
): Promise<MessageShape<O>> {
  const stream = session.open(options)
  await stream.send(toBinary(input, request))
  stream.end()
  let response: Uint8Array | undefined
  for await (const message of stream.messages) response ??= message
  const { error } = await stream.done
  if (error) throw error
  if (!response) throw new KasError({ code: 'STATUS', grpc: Code.INTERNAL, message: 'no response message' })
  return decodeMessage(output, response)
}
