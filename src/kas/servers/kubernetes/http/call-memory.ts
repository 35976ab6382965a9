import type { IncomingMessage } from 'node:http'
import { KasError } from '../../../../lib/errors.ts'
import type { Holder, NoRoom, Share } from '../../../../lib/shared-total.ts'
import { freeHeadLines } from './head-room.ts'

/** A call at its entry, its span, session and record among it; measured with calls that wait. */
const callBytes = 16 * 1024
/** Copies of a head: as node has read it, as it goes to the agent, and in pieces. */
const headCopies = 3
/** What a parameter of a long query costs beside its text, and each name or value of very many headers. A third of it: see above */
const parameterBytes = 60
const manyHeadersBytes = 40

/**
 * Memory of one call in the replica's share for callers, from when its caller is known until its end: itself, its head,
 * what it has sent and nobody has taken, and what its client has not.
 */
export class CallMemory implements Holder {
  readonly #share: Share
  readonly #end: (reason: KasError) => void
  #bytes: number
  #isClosed = false

  /**
   * @param share - it leaves that at its end
   * @param headBytes - of the request
   * @param end - ends the call, for others need the room
   * @throws KasError REPLICA_MEMORY_FULL: its caller holds most
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

  /** Waits here from now on. Where there is no room for it the call of whoever holds most ends, which may be this one. */
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

/** Estimates the memory of a call until its end. @param headBytes - of the request, or of the message that asks for a watch */
export function bytesOfCall(headBytes: number): number {
  return callBytes + headCopies * headBytes
}

function full({ limit }: NoRoom): KasError {
  return new KasError({ code: 'REPLICA_MEMORY_FULL', share: 'callers', limit })
}

/**
 * Counts the bytes of a request's head, as node has read it.
 *
 * @param parameters - of a long query
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
