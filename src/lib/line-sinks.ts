import { close, closeSync, fstatSync, openSync, readSync, type Stats, stat, write, writeSync } from 'node:fs'
import type { LineSink } from './line-writer.ts'

const newline = 10
/** Mode for a log that names people. */
const fileMode = 0o600
/** Interval of the check that a file still has its path. ms */
const checkMs = 5000

/** The part of Node's `process.stdout` that this file uses. */
export interface Pipe {
  readonly fd: number
  write(bytes: Buffer, done: (error?: Error | null) => void): boolean
  on(event: 'error', listener: (error: Error) => void): unknown
}

/**
 * Sink for the program's own stdout or stderr. A pipe or a socket accepts what its reader has room for, and the rest
 * later. A reader that stops delays nothing, and one that has left causes an error at each write. Node writes to files
 * and terminals synchronously, so their lines are written in Node's thread pool.
 */
export function standardSink(stream: Pipe): LineSink {
  const kind = fstatSync(stream.fd)
  if (!kind.isFIFO() && !kind.isSocket()) return new DescriptorSink(stream.fd)
  stream.on('error', () => undefined) // each write has its own error
  return {
    write(lines, from, done) {
      stream.write(lines.subarray(from), (error) => done(error ? from : lines.length, error ?? undefined))
    },
    writeNow: (lines) => writeAtOnce(stream.fd, lines),
  }
}

/** A descriptor that is open for writing. A write that would block is an error, and is repeated later. */
export class DescriptorSink implements LineSink {
  readonly #fd: number

  constructor(fd: number) {
    this.#fd = fd
  }

  write(lines: Buffer, from: number, done: (to: number, error?: Error) => void): void {
    writeAside(this.#fd, lines, from, done)
  }

  writeNow(lines: Buffer): void {
    writeAtOnce(this.#fd, lines)
  }
}

export interface FileSinkComponents {
  /** ms */
  readonly now: () => number
  /** called if the file is not at its path, or cannot be opened again: the open file is written to meanwhile */
  readonly onProblem: (error: Error) => void
}

/** A file to which lines are appended. It is opened again on demand, and once it is no longer at its path. */
export class FileSink implements LineSink {
  readonly #path: string
  readonly #components: FileSinkComponents
  #fd: number
  #isToReopen = false
  #checkedAt: number

  /** @throws Error of Node: the file cannot be opened */
  constructor(path: string, components: FileSinkComponents) {
    this.#path = path
    this.#components = components
    this.#fd = openFile(path)
    this.#checkedAt = components.now()
  }

  /** The file is opened again before the next line. */
  reopen(): void {
    this.#isToReopen = true
  }

  write(lines: Buffer, from: number, done: (to: number, error?: Error) => void): void {
    const now = this.#components.now()
    const begin = () => {
      const start = this.#isToReopen ? this.#reopened(lines, from) : from
      writeAside(this.#fd, lines, start, done)
    }
    if (this.#isToReopen || now - this.#checkedAt < checkMs) begin()
    else {
      this.#checkedAt = now
      stat(this.#path, (error, found) => {
        if (error ? error.code === 'ENOENT' : !isSame(found, this.#fd)) this.#isToReopen = true
        begin()
      })
    }
  }

  writeNow(lines: Buffer): void {
    writeAtOnce(this.#fd, lines)
  }

  close(): void {
    closeSync(this.#fd)
  }

  /** @returns place in `lines` to begin at: a line that began in the old file is written whole */
  #reopened(lines: Buffer, from: number): number {
    const before = this.#fd
    try {
      this.#fd = openFile(this.#path)
    } catch (error) {
      this.#components.onProblem(error as Error)
      this.#isToReopen = false
      this.#checkedAt = this.#components.now() // repeated at the next check
      return from
    }
    this.#isToReopen = false
    close(before, () => undefined)
    return from === 0 ? 0 : lines.lastIndexOf(newline, from - 1) + 1
  }
}

/** Opens a file for appending. A cut last line, of a killed process or a full disk, gets its end first. */
function openFile(path: string): number {
  const fd = openSync(path, 'a+', fileMode)
  const kind = fstatSync(fd)
  if (!kind.isFile()) {
    closeSync(fd)
    throw new Error('it is no file: what writes to a pipe or a device may have to wait for who reads there')
  }
  const last = Buffer.alloc(1)
  if (kind.size > 0 && readSync(fd, last, 0, 1, kind.size - 1) === 1 && last[0] !== newline)
    writeAtOnce(fd, Buffer.from('\n'))
  return fd
}

function isSame({ dev, ino }: Stats, fd: number): boolean {
  const open = fstatSync(fd)
  return open.dev === dev && open.ino === ino
}

function writeAside(fd: number, lines: Buffer, from: number, done: (to: number, error?: Error) => void): void {
  write(fd, lines, from, lines.length - from, null, (error, written = 0) => done(from + written, error ?? undefined))
}

/** Writes as much as is accepted at once: a full pipe or disk does not keep a process from ending. */
function writeAtOnce(fd: number, bytes: Buffer): void {
  try {
    for (let at = 0; at < bytes.length; ) at += writeSync(fd, bytes, at)
  } catch {
    // there is no place left to report it to
  }
}
