import { type DescMessage, type MessageShape, toBinary } from '@bufbuild/protobuf'
import type { Handler } from '../../src/proto/grpc/server-session.ts'
import { decodeMessage, unaryHandler } from '../../src/proto/grpc/unary.ts'

/** A unary method of a double, typed. */
export function serveUnary<I extends DescMessage, O extends DescMessage>(
  input: I,
  output: O,
  handle: (request: MessageShape<I>) => Promise<MessageShape<O>>,
): Handler {
  return unaryHandler(async (request) => toBinary(output, await handle(decodeMessage(input, request))))
}
