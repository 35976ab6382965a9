import type { Clock } from '../../../../lib/clock.ts'
import { Deadline } from '../../../../lib/deadline.ts'
import { KasError } from '../../../../lib/errors.ts'
import { abortable } from '../../../../lib/signals.ts'
import { decodeMessage } from '../../../../proto/decode.ts'
import {
  type PreviewBegin,
  type PreviewFile,
  type PreviewRequest,
  PreviewRequestSchema,
} from '../../../../proto/gen/gitops_preview_pb.ts'
import { maxFileBytes, maxFiles, maxRoundBytes } from '../../../../proto/gitops/limits.ts'
import type { RepositoryFile } from '../manifests/manifest.ts'

/** Time that the files may take beside `minBytesPerSecond`. ms */
const graceMs = 10_000
/** Least rate of the files after that time: a slower sender loses its place. bytes per second */
const minBytesPerSecond = 64 * 1024
/** Limit of a path. Characters */
const maxPathLength = 4096

export interface ReceivedFilesComponents {
  readonly messages: AsyncIterable<Uint8Array>
  /** @throws KasError: there is no room for so many bytes of this preview in all: of contents and of paths */
  readonly room: (bytes: number) => void
  /** by it the rate is checked */
  readonly clock: Clock
}

/** File whose parts are being read. */
interface OpenFile {
  readonly path: string
  readonly parts: Uint8Array[]
  bytes: number
}

/** Reads the request of a preview: the begin, then the files in parts, then their end. */
export class ReceivedFiles {
  readonly #messages: AsyncIterator<Uint8Array>
  readonly #room: (bytes: number) => void
  readonly #clock: Clock
  readonly #files: RepositoryFile[] = []
  readonly #paths = new Set<string>()
  #open: OpenFile | undefined
  #bytes = 0
  #pathBytes = 0

  constructor({ messages, room, clock }: ReceivedFilesComponents) {
    this.#messages = messages[Symbol.asyncIterator]()
    this.#room = room
    this.#clock = clock
  }

  /** Reads the first message. @throws KasError INVALID_MESSAGE, DEADLINE_EXCEEDED; the signal's reason */
  async begin(signal: AbortSignal): Promise<PreviewBegin> {
    const message = await this.#next(graceMs, signal)
    if (message?.what.case !== 'begin') throw invalid('a preview without its begin')
    return message.what.value
  }

  /**
   * Reads the files. All bounds are checked before anything is kept.
   *
   * @throws KasError INVALID_MESSAGE, MESSAGE_TOO_LARGE; DEADLINE_EXCEEDED: they come too slowly; as `room`; the
   * signal's reason
   */
  async files(signal: AbortSignal): Promise<readonly RepositoryFile[]> {
    const since = this.#clock.now()
    for (;;) {
      const allowedMs = graceMs + (this.#bytes * 1000) / minBytesPerSecond
      const message = await this.#next(allowedMs - (this.#clock.now() - since), signal)
      const { what } = message ?? {}
      if (what?.case === 'file') this.#part(what.value)
      else if (what?.case === 'end') {
        this.#finish()
        if (what.value.files !== this.#files.length)
          throw invalid(`${this.#files.length} files, and ${what.value.files} are announced`)
        return this.#files
      } else throw invalid(what?.case === 'begin' ? 'a second begin' : 'a preview whose files do not end')
    }
  }

  /** Leaves messages that were not read: one that is being waited for ends with its stream. */
  leave(): void {
    this.#messages.return?.().catch(() => undefined) // nobody waits for their end
  }

  /** @returns undefined: there is no further message */
  async #next(ms: number, signal: AbortSignal): Promise<PreviewRequest | undefined> {
    const reason = () => new KasError({ code: 'DEADLINE_EXCEEDED' })
    const deadline = new Deadline({ ms: Math.max(0, ms), clock: this.#clock, signals: [signal], reason })
    try {
      const next = await abortable(this.#messages.next(), deadline.signal)
      return next.done ? undefined : decodeMessage(PreviewRequestSchema, next.value)
    } finally {
      deadline.end()
    }
  }

  #part({ path, data }: PreviewFile): void {
    if (this.#open?.path !== path) this.#begin(path)
    const file = this.#open as OpenFile
    file.bytes += data.length
    this.#bytes += data.length
    if (file.bytes > maxFileBytes) throw tooLarge(file.bytes, maxFileBytes)
    if (this.#bytes > maxRoundBytes) throw tooLarge(this.#bytes, maxRoundBytes)
    this.#room(this.#bytes + this.#pathBytes)
    if (data.length > 0) file.parts.push(data)
  }

  #begin(path: string): void {
    this.#finish()
    if (path === '' || path.length > maxPathLength) throw invalid(`a file with a path of ${path.length} characters`)
    if (this.#paths.has(path)) throw invalid('two files with one path')
    if (this.#files.length >= maxFiles) throw invalid(`more than ${maxFiles} files`)
    this.#paths.add(path)
    this.#pathBytes += Buffer.byteLength(path)
    this.#open = { path, parts: [], bytes: 0 }
  }

  /** Joins the parts in memory that threads share. */
  #finish(): void {
    if (!this.#open) return
    const { path, parts, bytes } = this.#open
    const data = new Uint8Array(new SharedArrayBuffer(bytes))
    let at = 0
    for (const part of parts) {
      data.set(part, at)
      at += part.length
    }
    this.#files.push({ path, data })
    this.#open = undefined
  }
}

function invalid(detail: string): KasError {
  return new KasError({ code: 'INVALID_MESSAGE', detail })
}

function tooLarge(bytes: number, maxBytes: number): KasError {
  return new KasError({ code: 'MESSAGE_TOO_LARGE', bytes, maxBytes })
}
