import type { Socket } from 'node:net'

/** The part of a head that each connection may hold beside the room that all share. */
export const freeHeadBytes = 64 * 1024
/** Header lines of it. */
export const freeHeadLines = 500
/** What a line costs beside its bytes: strings, and places in lists. */
const lineBytes = 256
/**
 * With each piece of a line that comes, node copies all of the line that it has: a head of 1 MiB may come in pieces of 1 KiB on
 * average.
 */
const maxCopiedBytes = 512 * 1024 * 1024
/** A head of so many bytes has no more than the free lines: none is shorter than `a:` and its end. */
const linesFrom = freeHeadLines * 4

/**
 * Memory of a replica for the long heads of requests whose callers are not known yet: their bytes over 64 KiB, and their
 * lines over 500. Who is without room is refused; nobody is ended for others.
 */
export class HeadRoom {
  readonly #maxBytes: number
  #bytes = 0

  constructor(maxBytes: number) {
    this.#maxBytes = maxBytes
  }

  get bytes(): number {
    return this.#bytes
  }

  /** @returns whether there was room */
  take(bytes: number): boolean {
    if (this.#bytes + bytes > this.#maxBytes) return false
    this.#bytes += bytes
    return true
  }

  give(bytes: number): void {
    this.#bytes -= bytes
  }
}

export interface HeadMeterOptions {
  readonly room: HeadRoom
  readonly maxLines: number
  /** What comes now belongs to a body, of a known length or in chunks; undefined: to a head. */
  readonly bodyNow: () => 'plain' | 'chunked' | undefined
  /** There is no room, or there are too many lines. */
  readonly refuse: () => void
}

const lineFeed = 10

/** Counts the head that comes on a connection, before node parses it and until its caller is known. */
export class HeadMeter {
  readonly #socket: Socket
  readonly #options: HeadMeterOptions
  #bytes = 0
  #lines = 0
  #taken = 0
  /** by node, at the most */
  #copied = 0
  /** of a body's framing or trailers, since its last bytes */
  #framing = 0

  constructor(socket: Socket, options: HeadMeterOptions) {
    this.#socket = socket
    this.#options = options
    socket.on('data', ignore) // node reads by itself where nobody else listens
    socket.prependListener('data', this.#onData)
    socket.once('close', () => this.stop())
  }

  /** Nothing has come since the last request. */
  get isEmpty(): boolean {
    return this.#bytes === 0
  }

  /** The head is whole. @returns gives its room back; undefined: it has taken none */
  end(): (() => void) | undefined {
    const taken = this.#taken
    this.#taken = 0
    this.#bytes = 0
    this.#lines = 0
    this.#copied = 0
    this.#framing = 0
    return taken === 0 ? undefined : () => this.#options.room.give(taken)
  }

  /** Bytes of a chunked body have come: what is between them is short, unless trailers are. */
  onBody(): void {
    this.#framing = 0
  }

  /** The connection is no longer HTTP, or closed. */
  stop(): void {
    this.#socket.off('data', this.#onData).off('data', ignore)
    this.end()?.()
  }

  readonly #onData = (chunk: Buffer): void => {
    const body = this.#options.bodyNow()
    if (body === 'chunked') this.#countFraming(chunk.length)
    if (body) return
    this.#bytes += chunk.length
    if (this.#bytes > linesFrom) this.#lines += linesOf(chunk)
    const wanted = Math.max(0, this.#bytes - freeHeadBytes) + Math.max(0, this.#lines - freeHeadLines) * lineBytes
    const more = wanted - this.#taken
    if (more <= 0) return
    this.#copied += this.#bytes
    const { maxLines, room } = this.#options
    if (this.#lines <= maxLines && this.#copied <= maxCopiedBytes && room.take(more)) this.#taken = wanted
    else this.#options.refuse()
  }

  #countFraming(bytes: number): void {
    this.#framing += bytes
    if (this.#framing > freeHeadBytes + bytes) this.#options.refuse()
  }
}

function linesOf(chunk: Buffer): number {
  let lines = 0
  for (let at = chunk.indexOf(lineFeed); at >= 0; at = chunk.indexOf(lineFeed, at + 1)) lines++
  return lines
}

function ignore(): void {}
