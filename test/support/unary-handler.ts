import { type DescMessage, type MessageShape, toBinary } from '@bufbuild/protobuf'
import type { Handler, ServerStream } from '../../src/proto/grpc/server-stream.ts'
import { readOne } from '../../src/proto/unary.ts'

/** Serves a unary method. */
export function unaryHandler<I extends DescMessage, O extends DescMessage>(
  input: I,
  output: O,
  handle: (request: MessageShape<I>, stream: ServerStream) => Promise<MessageShape<O>>,
): Handler {
  return async (stream) => {
    const response = await handle(await readOne(input, stream.messages), stream)
    await stream.send(toBinary(output, response))
  }
}
