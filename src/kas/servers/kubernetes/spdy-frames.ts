/** Frames of an API server in SPDY/3.1, which kubectl uses for commands in pods where it does not use WebSocket. */

const headBytes = 8
/** Place of the frame's length in its head: three bytes. */
const lengthAt = 5
const isFinal = 1
/** Stream of errors, which clients of commands in pods open first: client-go's `remotecommand`, `createStreams`. */
export const errorStream = 1

/** Finds the ends of frames: control frames and data frames have their length at the same place. */
export class SpdyBoundaries {
  readonly #head = Buffer.alloc(headBytes)
  #headBytes = 0
  #left = 0

  /** Must see each byte once, in order. @returns end of the frame that contains `from`; -1: not in this chunk */
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

/** Encodes the last data frame of a stream. */
export function lastData(streamId: number, payload: Uint8Array): Buffer {
  const head = Buffer.alloc(headBytes)
  head.writeUInt32BE(streamId)
  head[4] = isFinal
  head.writeUIntBE(payload.length, lengthAt, 3)
  return Buffer.concat([head, payload])
}
