import type { Socket } from 'node:net'
import { networkOf, routedNetworkOf } from '../../../../lib/host-port.ts'
import { type RoomUser, type Share, SharedTotal } from '../../../../lib/shared-total.ts'

/** Bytes of a head that each connection may have beside the shared room. */
export const freeHeadBytes = 64 * 1024
/** Header lines of that part. */
export const freeHeadLines = 500
/** Memory of a line beside its bytes: strings, and places in lists. bytes */
const lineBytes = 256
/**
 * Bytes that node may copy for a head, because it copies a line with each piece: enough for 1 MiB in pieces of 1 KiB.
 */
const maxCopiedBytes = 512 * 1024 * 1024
/** A head of fewer bytes has no more than the free lines, because the shortest line is `a:` and its end. bytes */
const linesFrom = freeHeadLines * 4

/**
 * Shared memory for long heads of requests whose callers are unknown yet: bytes over 64 KiB, and lines over 500. If it
 * is full, the network that uses most makes room, and in it the address that does.
 */
export class HeadRoom {
  readonly #total: SharedTotal

  constructor(maxBytes: number) {
    this.#total = new SharedTotal({ maxBytes })
  }

  get bytes(): number {
    return this.#total.bytes
  }

  /** @param address - address of the connection. @param end - called at most once, when others need the room */
  open(address: string, end: () => void): LongHead {
    return new LongHead(this.#total.enter(routedNetworkOf(address), networkOf(address)), end)
  }
}

/** The part of the room that one head uses. */
class LongHead implements RoomUser {
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

  /** @returns true: there was room; false: there was none, and its address or network uses most */
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
  /** address of the connection; undefined: a Unix socket */
  readonly address: string | undefined
  readonly maxLines: number
  /** kind of the body that the next bytes belong to; undefined: they belong to a head */
  readonly bodyNow: () => 'plain' | 'chunked' | undefined
  /** Called if there is no room, or there are too many lines. */
  readonly refuse: () => void
}

const lineFeed = 10

/** Counts the head that comes on a connection, from before node parses it until its caller is known. */
export class HeadMeter {
  readonly #socket: Socket
  readonly #options: HeadMeterOptions
  #bytes = 0
  #lines = 0
  #head: LongHead | undefined
  /** bytes that node has copied, at most */
  #copied = 0
  /** bytes of a body's framing or trailers, since the body's last bytes */
  #framing = 0

  constructor(socket: Socket, options: HeadMeterOptions) {
    this.#socket = socket
    this.#options = options
    socket.on('data', ignore) // node reads the socket itself if there is no other listener
    socket.prependListener('data', this.#onData)
    socket.once('close', () => this.stop())
  }

  /** Bytes of the head that has come so far; 0: nothing has come since the last request. */
  get bytes(): number {
    return this.#bytes
  }

  /** Ends the count: the head is complete. @returns frees its room; undefined: it has taken none */
  end(): (() => void) | undefined {
    const head = this.#head
    this.#head = undefined
    this.#bytes = 0
    this.#lines = 0
    this.#copied = 0
    this.#framing = 0
    return head && (() => head.give())
  }

  /** Resets the count of framing: bytes of a chunked body have come, and only trailers may be long between them. */
  onBody(): void {
    this.#framing = 0
  }

  /** Stops: the connection is no longer HTTP, or is closed. */
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

  /** Opens the head's room. A head that must make room is refused; if it is complete, its connection ends. */
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
