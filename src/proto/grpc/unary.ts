import { type DescMessage, fromBinary, type MessageShape, toBinary } from '@bufbuild/protobuf'
import { Code, KasError } from '../../lib/errors.ts'
import type { ClientSession, OpenOptions } from './client-session.ts'
import type { Handler } from './server-session.ts'

/** One message in, one out. */

/** The only message of a stream; INVALID_MESSAGE if there is none, or more. */
export async function readOne<I extends DescMessage>(
  input: I,
  messages: AsyncIterable<Uint8Array>,
): Promise<MessageShape<I>> {
  return decodeMessage(input, await readOneMessage(messages))
}

/** As `readOne`, the bytes. */
export async function readOneMessage(messages: AsyncIterable<Uint8Array>): Promise<Uint8Array> {
  let request: Uint8Array | undefined
  for await (const message of messages) {
    if (request) throw new KasError({ code: 'INVALID_MESSAGE', detail: 'more than one request message' })
    request = message
  }
  if (!request) throw new KasError({ code: 'INVALID_MESSAGE', detail: 'no request message' })
  return request
}

/** Serves a unary method. */
export function unaryHandler(method: (request: Uint8Array) => Promise<Uint8Array>): Handler {
  return async (stream) => {
    await stream.send(await method(await readOneMessage(stream.messages)))
  }
}

/** Calls a unary method. @throws KasError */
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

/** @throws KasError INVALID_MESSAGE */
export function decodeMessage<T extends DescMessage>(schema: T, bytes: Uint8Array): MessageShape<T> {
  try {
    return fromBinary(schema, bytes)
  } catch (cause) {
    throw new KasError({ code: 'INVALID_MESSAGE', detail: `malformed ${schema.typeName}` }, { cause })
  }
}
