/** What an API server says in SPDY/3.1, by which kubectl runs commands in pods where it does not by WebSocket. */

const headBytes = 8
/** of a frame's head: where the length of what follows it stands, in three bytes */
const lengthAt = 5
const isFinal = 1
/** Clients of commands in pods open the stream of errors first: client-go's `remotecommand`, `createStreams`. */
export const errorStream = 1

/** Where a frame ends: control frames and data have their length at the same place. */
export class SpdyBoundaries {
  readonly #head = Buffer.alloc(headBytes)
  #headBytes = 0
  #left = 0

  /** Called once for each byte, in order. @returns where behind `from` a frame ends; -1: not in this chunk */
  endOf(chunk: Uint8Array, from: number): number {
    let at = from
    while (at < chunk.length && this.#headBytes < headBytes) {
      this.#head[this.#headBytes++] = chunk[at++] as number
      if (this.#headBytes === headBytes) this.#left = this.#head.readUIntBE(lengthAt, 3)
    }
    const passed = Math.min(this.#left, chunk.length - at)
    this.#left -= passed
    at += passed
    if (this.#headBytes < headBytes || this.#left > 0) return -1
    this.#headBytes = 0
    return at
  }
}

/** The last data of a stream. */
export function lastData(streamId: number, payload: Uint8Array): Buffer {
  const head = Buffer.alloc(headBytes)
  head.writeUInt32BE(streamId)
  head[4] = isFinal
  head.writeUIntBE(payload.length, lengthAt, 3)
  return Buffer.concat([head, payload])
}
