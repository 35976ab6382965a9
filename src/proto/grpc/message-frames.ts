import type { Writable } from 'node:stream'
import { freeBuffer } from './free-buffer.ts'
import { webSocketMessageBytes } from './limits.ts'

/**
 * How what is sent is masked (RFC 6455 5.3): a server's not at all; a client's by zero, which leaves the bytes as they
 * are, or by a function that masks a message where it lies and returns its frame.
 */
export type Masking = 'none' | 'zero' | ((message: Buffer) => readonly Buffer[])

const finalBinary = 0x82
const maskedFlag = 0x80
const maskBytes = 4
/** Below this all is copied behind its head: one small write is cheaper than several. */
const copiedBytes = 4096

/**
 * Writes what `pieces` hold to the connection below a WebSocket, as binary messages of one frame each, in one write; as
 * far as they are not masked from where they lie, since the package ws takes a message in one piece alone. They are
 * freed once they have left.
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
    if (typeof masking === 'function') parts.push(...masking(Buffer.concat(message, bytes)))
    else {
      const head = frameHead(bytes, masking === 'zero')
      if (bytes <= copiedBytes) parts.push(Buffer.concat([head, ...message], head.length + bytes))
      else parts.push(head, ...message)
    }
  }
  return parts
}

/** The pieces of each message. */
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

/** Of a message that fits into 16 bits of length. */
function frameHead(length: number, masked: boolean): Buffer {
  const lengthBytes = length < 126 ? 0 : 2
  const head = Buffer.alloc(2 + lengthBytes + (masked ? maskBytes : 0))
  head[0] = finalBinary
  head[1] = (lengthBytes === 0 ? length : 126) | (masked ? maskedFlag : 0)
  if (lengthBytes > 0) head.writeUInt16BE(length, 2)
  return head
}
