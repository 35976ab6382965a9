import type { Duplex } from 'node:stream'
import type { buildConnector, Dispatcher } from 'undici'
import Client from 'undici/lib/dispatcher/client.js'
import { KasError } from '../../lib/errors.ts'

/** Limit of bytes in the head of an answer. */
export const maxAnswerHeadBytes = 64 * 1024
/** Limit of header lines in the head of an answer. */
export const maxAnswerLines = 500
/** Limit of informational answers (1xx): Go's client long took 5. Each has a head, and nothing slows them down. */
export const maxInformationalAnswers = 20

export function tooManyBytes(cause?: unknown): KasError {
  return unreadable(`its head has more than ${maxAnswerHeadBytes} bytes`, cause)
}

export function tooManyLines(): KasError {
  return unreadable(`its head has more than ${maxAnswerLines} lines`)
}

export function tooManyInformational(): KasError {
  return unreadable(`more than ${maxInformationalAnswers} informational answers (1xx) come before it`)
}

function unreadable(reason: string, cause?: unknown): KasError {
  const detail = `the answer of the API server, or of what it passes on, is not read: ${reason}`
  return new KasError({ code: 'UNREACHABLE', detail }, cause === undefined ? {} : { cause })
}

const lineFeed = 10
const carriageReturn = 13
/** index in `HTTP/1.1 200 OK` */
const statusAt = 9
const one = 0x31

/**
 * Counts the lines of heads as they come from a socket. The parser of undici counts none, and spends up to 160 ms on a
 * head that it refuses for its bytes. Bodies are not read.
 */
export class HeadGuard {
  #inHead = true
  #informational = 0
  /** lines of this head */
  #lines = 0
  #bytes = 0
  #isInformational = false
  /** this line has something other than its end */
  #hasText = false

  /** Expects the head of an answer next. */
  expect(): void {
    this.#inHead = true
    this.#informational = 0
    this.#begin()
  }

  /** Counts what is read from `socket` from now on; beyond a limit destroys it with a KasError UNREACHABLE. */
  watch(socket: Pick<Duplex, 'read' | 'destroy'>): void {
    this.expect()
    const read = socket.read.bind(socket)
    socket.read = (size) => {
      const chunk: Buffer | null = read(size)
      const fault = chunk && this.#inHead ? this.accept(chunk) : undefined
      if (!fault) return chunk
      socket.destroy(fault)
      return null
    }
  }

  /** @internal @returns the reason why no more may be read; undefined: within the limits */
  accept(chunk: Buffer): KasError | undefined {
    let at = 0
    while (this.#inHead && at < chunk.length) {
      const found = chunk.indexOf(lineFeed, at)
      const end = found < 0 ? chunk.length : found
      const fault = this.#take(chunk.subarray(at, end)) ?? (found < 0 ? undefined : this.#endLine())
      if (fault) return fault
      at = end + 1
    }
    return undefined
  }

  #take(part: Buffer): KasError | undefined {
    const status = part[statusAt - this.#bytes]
    if (status !== undefined) this.#isInformational = status === one
    this.#bytes += part.length
    this.#hasText ||= part.length > 1 || (part.length === 1 && part[0] !== carriageReturn)
    return this.#bytes > maxAnswerHeadBytes ? tooManyBytes() : undefined
  }

  #endLine(): KasError | undefined {
    if (this.#hasText) {
      this.#lines += 1
      this.#bytes += 1
      this.#hasText = false
      return this.#lines > 1 + maxAnswerLines ? tooManyLines() : undefined // the first is the status line
    }
    if (this.#lines > 0) {
      this.#inHead = this.#isInformational
      if (this.#isInformational) this.#informational += 1
    }
    this.#begin()
    return this.#informational > maxInformationalAnswers ? tooManyInformational() : undefined
  }

  #begin(): void {
    this.#lines = 0
    this.#bytes = 0
    this.#isInformational = false
    this.#hasText = false
  }
}

/** A client with one connection and one request at a time. It counts the heads of answers before they are parsed. */
export class GuardedClient extends Client {
  readonly #guard: HeadGuard

  constructor(origin: URL, options: Client.Options & { connect: buildConnector.connector }) {
    const guard = new HeadGuard()
    const connect: buildConnector.connector = (target, done) =>
      options.connect(target, (...[error, socket]) => {
        if (error) return done(error, null)
        guard.watch(socket)
        done(null, socket)
      })
    super(origin, { ...options, connect })
    this.#guard = guard
  }

  /** Expects a new answer: the pool sends a request only after the answer before has been read to its end. */
  override dispatch(options: Dispatcher.DispatchOptions, handler: Dispatcher.DispatchHandler): boolean {
    this.#guard.expect()
    return super.dispatch(options, handler)
  }
}
