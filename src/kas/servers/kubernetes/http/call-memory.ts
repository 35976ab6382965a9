import type { IncomingMessage } from 'node:http'
import { KasError } from '../../../../lib/errors.ts'
import type { NoRoom, RoomUser, Share } from '../../../../lib/shared-total.ts'
import { freeHeadLines } from './head-room.ts'

/** Memory of a call at its entry, including span, session and record; measured with waiting calls. bytes */
const callBytes = 16 * 1024
/** Copies of a head: as node has read it, as it goes to the agent, and in pieces. */
const headCopies = 3
/** Memory beside the text of a long query's parameter, or of each of many headers: counts `headCopies` times. bytes */
const parameterBytes = 60
const manyHeadersBytes = 40

/**
 * Counts the memory of one call in the replica's share for callers, from its admission until its end. It includes the
 * call, its head, its bytes that were not taken yet, and bytes that the client has not taken.
 */
export class CallMemory implements RoomUser {
  readonly #share: Share
  readonly #end: (reason: KasError) => void
  #bytes: number
  #isClosed = false

  /**
   * @param share - the call leaves it at its end
   * @param headBytes - bytes of the request's head
   * @param end - ends the call, because others need the room
   * @throws KasError REPLICA_MEMORY_FULL: its caller uses most
   */
  constructor(share: Share, headBytes: number, end: (reason: KasError) => void) {
    this.#share = share
    this.#end = end
    this.#bytes = bytesOfCall(headBytes)
    if (!share.admit(this.#bytes)) {
      share.leave()
      throw full(share.total.noRoom)
    }
    share.holders.add(this)
  }

  get bufferedBytes(): number {
    return this.#bytes
  }

  /** Counts further bytes. Without room, the call of the caller that uses most ends, possibly this one. */
  take(bytes: number): void {
    if (this.#isClosed) return
    if (this.#share.add(bytes)) {
      if (this.#isClosed) this.#share.remove(bytes)
      else this.#bytes += bytes
    } else this.drop(this.#share.total.noRoom)
  }

  give(bytes: number): void {
    if (this.#isClosed) return
    this.#bytes -= bytes
    this.#share.remove(bytes)
  }

  drop(why: NoRoom): void {
    if (this.#isClosed) return
    this.close()
    this.#end(full(why))
  }

  close(): void {
    if (this.#isClosed) return
    this.#isClosed = true
    this.#share.holders.delete(this)
    this.#share.remove(this.#bytes)
    this.#share.leave()
  }
}

/**
 * Estimates the memory of a call until its end. @param headBytes - bytes of the request's head, or of the watch request
 */
export function bytesOfCall(headBytes: number): number {
  return callBytes + headCopies * headBytes
}

function full({ limit }: NoRoom): KasError {
  return new KasError({ code: 'REPLICA_MEMORY_FULL', share: 'callers', limit })
}

/**
 * Counts the bytes of a request's head, as node has read it.
 *
 * @param parameters - number of parameters of a long query
 */
export function headBytes(
  { rawHeaders, url = '' }: Pick<IncomingMessage, 'rawHeaders' | 'url'>,
  parameters = 0,
): number {
  let bytes = url.length + parameters * parameterBytes
  if (rawHeaders.length > 2 * freeHeadLines) bytes += rawHeaders.length * manyHeadersBytes
  for (const part of rawHeaders) bytes += part.length
  return bytes
}
