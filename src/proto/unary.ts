import {
  type DescMessage,
  type DescService,
  fromBinary,
  type Message,
  type MessageShape,
  toBinary,
} from '@bufbuild/protobuf'
import { KasError } from '../lib/errors.ts'

/** One message in, one out, as bytes. */
export type UnaryMethod = (request: Uint8Array) => Promise<Uint8Array>

/** By `/package.Service/Method`. */
export type UnaryMethods = ReadonlyMap<string, UnaryMethod>

/** What a service does, by the local names of its methods, all unary. */
export type UnaryImplementation<Service extends DescService> = {
  [Name in keyof Service['method']]: (
    request: MessageShape<Service['method'][Name]['input']>,
  ) => Promise<MessageShape<Service['method'][Name]['output']>>
}

/** The methods of a service by `/package.Service/Method`. They throw INVALID_MESSAGE for bytes that are no request. */
export function unaryService<Service extends DescService>(
  service: Service,
  implementation: UnaryImplementation<Service>,
): UnaryMethods {
  return new Map(
    service.methods.map(({ name, localName, input, output }) => {
      const handle = implementation[localName] as unknown as (request: Message) => Promise<Message>
      const method: UnaryMethod = async (request) => toBinary(output, await handle(decode(input, request)))
      return [`/${service.typeName}/${name}`, method]
    }),
  )
}

function decode(schema: DescMessage, bytes: Uint8Array): Message {
  try {
    return fromBinary(schema, bytes)
  } catch (cause) {
    throw new KasError({ code: 'INVALID_MESSAGE', detail: `malformed ${schema.typeName}` }, { cause })
  }
}
