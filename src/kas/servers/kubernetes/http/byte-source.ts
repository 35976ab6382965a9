import type { Readable } from 'node:stream'
import type { ByteMeter } from '../../../../lib/byte-budget.ts'
import type { KasError } from '../../../../lib/errors.ts'

/** Bytes that wait for their reader before the sender is stopped. */
export const maxWaitingBytes = 64 * 1024

/** Memory of a waiting chunk beside its bytes: a client may send single bytes. */
const chunkBytes = 256

/** Reads a stream chunk by chunk on demand. The stream's own iterator would copy waiting chunks into one. */
export class ByteSource {
  readonly #stream: Readable
  #chunks: Buffer[] = []
  #waitingBytes = 0
  #reader: PromiseWithResolvers<Buffer | undefined> | undefined
  #ended = false
  #readBytes = 0
  #failure: KasError | undefined
  #meter: ByteMeter | undefined

  /** Takes the stream over: nothing else may read it. */
  constructor(stream: Readable) {
    this.#stream = stream
    stream.on('data', this.#onData)
    stream.on('end', this.#onEnd)
  }

  /** Counts waiting bytes with this meter from now on. */
  countBy(meter: ByteMeter | undefined): void {
    this.#meter = meter
    if (this.#waitingBytes > 0) meter?.take(this.#waitingBytes)
  }

  /** bytes that have come */
  get bytes(): number {
    return this.#readBytes
  }

  /**
   * Returns the next chunk; undefined: the stream has ended. One read at a time.
   *
   * @throws the KasError given to `fail`
   */
  read(): Promise<Buffer | undefined> {
    const chunk = this.#chunks.shift()
    if (chunk) {
      this.#waitingBytes -= chunk.length + chunkBytes
      this.#meter?.give(chunk.length + chunkBytes)
      if (this.#waitingBytes < maxWaitingBytes && this.#stream.isPaused()) this.#stream.resume()
      return Promise.resolve(chunk)
    }
    if (this.#failure) return Promise.reject(this.#failure)
    if (this.#ended) return Promise.resolve(undefined)
    this.#reader = Promise.withResolvers()
    return this.#reader.promise
  }

  /** Fails the waiting read and all later ones. */
  fail(error: KasError): void {
    if (this.#failure || this.#ended) return
    this.#failure = error
    this.release()
    this.#reader?.reject(error)
  }

  /** Gives the stream back to its owner. */
  release(): void {
    this.#stream.off('data', this.#onData)
    this.#stream.off('end', this.#onEnd)
    this.#stream.resume()
  }

  /** Gives the paused stream back to its owner. @returns bytes that were read but not taken */
  takeBack(): Buffer {
    this.#stream.off('data', this.#onData)
    this.#stream.off('end', this.#onEnd)
    this.#stream.pause()
    return Buffer.concat(this.#chunks.splice(0))
  }

  #onData = (chunk: Buffer): void => {
    this.#readBytes += chunk.length
    const reader = this.#reader
    if (reader) {
      this.#reader = undefined
      reader.resolve(chunk)
      return
    }
    this.#chunks.push(chunk)
    this.#waitingBytes += chunk.length + chunkBytes
    if (this.#waitingBytes >= maxWaitingBytes) this.#stream.pause()
    this.#meter?.take(chunk.length + chunkBytes)
  }

  #onEnd = (): void => {
    this.#ended = true
    this.#reader?.resolve(undefined)
  }
}
