import type { Socket } from 'node:net'
import { networkOf, routedNetworkOf } from '../../../../lib/host-port.ts'
import { type Holder, type Share, SharedTotal } from '../../../../lib/shared-total.ts'

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
 * lines over 500. Where it is full, the network that holds most makes room, and in it the address that does.
 */
export class HeadRoom {
  readonly #total: SharedTotal

  constructor(maxBytes: number) {
    this.#total = new SharedTotal({ maxBytes })
  }

  get bytes(): number {
    return this.#total.bytes
  }

  /** @param address - of the connection. @param end - called once at most: others need the room */
  open(address: string, end: () => void): LongHead {
    return new LongHead(this.#total.enter(routedNetworkOf(address), networkOf(address)), end)
  }
}

/** The part of the room that one head has. */
class LongHead implements Holder {
  readonly #share: Share
  readonly #end: () => void
  #bytes = 0
  #isGiven = false

  constructor(share: Share, end: () => void) {
    this.#share = share
    this.#end = end
    share.holders.add(this)
  }

  get bufferedBytes(): number {
    return this.#bytes
  }

  /** @returns whether there was room: not where its address, or the network, holds most */
  take(bytes: number): boolean {
    if (!this.#share.admit(bytes)) return false
    this.#bytes += bytes
    return true
  }

  drop(): void {
    this.give()
    this.#end()
  }

  give(): void {
    if (this.#isGiven) return
    this.#isGiven = true
    this.#share.holders.delete(this)
    this.#share.remove(this.#bytes)
    this.#share.leave()
  }
}

export interface HeadMeterOptions {
  readonly room: HeadRoom
  /** of the connection; undefined: of a Unix socket */
  readonly address: string | undefined
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
  #head: LongHead | undefined
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
    const head = this.#head
    this.#head = undefined
    this.#bytes = 0
    this.#lines = 0
    this.#copied = 0
    this.#framing = 0
    return head && (() => head.give())
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
    const more = wanted - (this.#head?.bufferedBytes ?? 0)
    if (more <= 0) return
    this.#copied += this.#bytes
    this.#head ??= this.#open()
    if (this.#lines > this.#options.maxLines || this.#copied > maxCopiedBytes || !this.#head.take(more))
      this.#options.refuse()
  }

  /** One that makes room is refused, or its connection ends while its caller is being checked. */
  #open(): LongHead {
    const { room, address = '', refuse } = this.#options
    const head = room.open(address, () => (this.#head === head ? refuse() : this.#socket.destroy()))
    return head
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
