import { delay } from '../../src/lib/signals.ts'
import { framePrefix } from '../../src/proto/grpc/frames.ts'
import type { RawStream } from './raw-streams.ts'

/** A gRPC message of so many bytes that begins with `known`; the rest are unknown fields, three bytes each. */
export function withUnknownFields(known: Uint8Array, bytes: number): Buffer {
  const field = Buffer.from([0xf8, 0x7f, 1]) // field 2047, a varint
  const unknown = Buffer.alloc(Math.floor((bytes - known.length) / field.length) * field.length, field)
  return Buffer.concat([framePrefix(known.length + unknown.length), known, unknown])
}

/**
 * Sends the same message again and again, as fast as kas reads it, for `ms`. @throws Error if the stream ends before
 */
export async function repeat(stream: RawStream, message: Buffer, ms: number, signal: AbortSignal): Promise<void> {
  let isOver = false
  const over = delay(ms, signal).then(() => {
    isOver = true
  })
  const ended = stream.refused.then((refusal) => {
    if (!isOver) throw new Error(`the stream has ended: ${refusal}`)
  })
  while (!isOver) await Promise.race([stream.write(message), over, ended])
}
