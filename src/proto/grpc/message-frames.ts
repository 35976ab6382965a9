import { randomBytes } from 'node:crypto'
import type { Writable } from 'node:stream'
import { freeBuffer } from './buffer-memory.ts'
import { webSocketMessageBytes } from './limits.ts'
import { applyMask } from './masks.ts'

/**
 * Masking of sent messages (RFC 6455 5.3). A server does not mask. A client masks by a key of zero, which leaves the
 * bytes unchanged, or each message by a random key.
 */
export type Masking = 'none' | 'zero' | 'random'

const finalBinary = 0x82
const maskedFlag = 0x80
const keyBytes = 4
const zeroKey = Buffer.alloc(keyBytes)
/** Size below which a message is copied behind its head: one small write is cheaper than several. */
const copiedBytes = 4096

/**
 * Writes the bytes of `pieces` to the connection below a WebSocket, in one write, as binary messages of one frame each.
 * Larger messages without a random mask are not copied: the package ws accepts a message in one piece only. The pieces
 * are freed once they have left.
 */
export function writeFrames(
  connection: Writable,
  pieces: readonly Buffer[],
  { masking, sent }: { masking: Masking; sent: () => void },
): void {
  const parts = framesOf(pieces, masking)
  const left = (error?: Error | null) => {
    if (!error) for (const bytes of [...pieces, ...parts]) freeBuffer(bytes)
    sent()
  }
  connection.cork()
  for (const [i, part] of parts.entries()) connection.write(part, i === parts.length - 1 ? left : undefined)
  connection.uncork()
}

function framesOf(pieces: readonly Buffer[], masking: Masking): Buffer[] {
  const parts: Buffer[] = []
  for (const message of messagesOf(pieces)) {
    const bytes = lengthOf(message)
    const key = masking === 'random' ? randomBytes(keyBytes) : zeroKey
    const head = frameHead(bytes, masking === 'none' ? undefined : key)
    if (bytes > copiedBytes && masking !== 'random') parts.push(head, ...message)
    else {
      const frame = Buffer.concat([head, ...message], head.length + bytes)
      if (masking === 'random') applyMask(frame.subarray(head.length), key)
      parts.push(frame)
    }
  }
  return parts
}

/** Splits the pieces into messages. */
function messagesOf(pieces: readonly Buffer[]): Buffer[][] {
  const messages: Buffer[][] = []
  let room = 0
  for (const piece of pieces) {
    for (let at = 0; at < piece.length; ) {
      if (room === 0) {
        messages.push([])
        room = webSocketMessageBytes
      }
      const part = piece.length - at <= room && at === 0 ? piece : piece.subarray(at, at + room)
      messages.at(-1)?.push(part)
      at += part.length
      room -= part.length
    }
  }
  return messages
}

export function lengthOf(pieces: readonly Buffer[]): number {
  let length = 0
  for (const piece of pieces) length += piece.length
  return length
}

/**
 * Head of a message whose length fits in 16 bits.
 *
 * @param key - undefined: the message is not masked
 */
function frameHead(length: number, key: Buffer | undefined): Buffer {
  const lengthBytes = length < 126 ? 0 : 2
  const head = Buffer.alloc(2 + lengthBytes + (key?.length ?? 0))
  head[0] = finalBinary
  head[1] = (lengthBytes === 0 ? length : 126) | (key ? maskedFlag : 0)
  if (lengthBytes > 0) head.writeUInt16BE(length, 2)
  key?.copy(head, 2 + lengthBytes)
  return head
}
