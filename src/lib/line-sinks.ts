import { close, closeSync, fstatSync, openSync, readSync, type Stats, stat, write, writeSync } from 'node:fs'
import type { LineSink } from './line-writer.ts'

const newline = 10
/** As a log is kept that names people. */
const fileMode = 0o600
/** Between two checks of whether a file is still where it was. ms */
const checkMs = 5000

/** What of node's `process.stdout` is needed. */
export interface Pipe {
  readonly fd: number
  write(bytes: Buffer, done: (error?: Error | null) => void): boolean
  on(event: 'error', listener: (error: Error) => void): unknown
}

/**
 * The program's own stdout or stderr. A pipe or a socket takes what its reader has room for, and the rest later; a reader that
 * stops holds nothing up, and one that has left is an error of each write. What node writes to at once, and waits for, is
 * written aside: files and terminals.
 */
export function standardSink(stream: Pipe): LineSink {
  const kind = fstatSync(stream.fd)
  if (!kind.isFIFO() && !kind.isSocket()) return new DescriptorSink(stream.fd)
  stream.on('error', () => undefined) // each write has its own
  return {
    write(lines, from, done) {
      stream.write(lines.subarray(from), (error) => done(error ? from : lines.length, error ?? undefined))
    },
    writeNow: (lines) => writeAtOnce(stream.fd, lines),
  }
}

/** A descriptor that is open for writing, aside; one that would have to wait is an error, and written to again later. */
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
  /** the file is not where it should be, or cannot be opened again: what is open is written to meanwhile */
  readonly onProblem: (error: Error) => void
}

/** A file that lines are added to; it is opened anew on demand, and when it is not there any more. */
export class FileSink implements LineSink {
  readonly #path: string
  readonly #components: FileSinkComponents
  #fd: number
  #isToReopen = false
  #checkedAt: number

  /** @throws Error of node: it cannot be opened */
  constructor(path: string, components: FileSinkComponents) {
    this.#path = path
    this.#components = components
    this.#fd = openFile(path)
    this.#checkedAt = components.now()
  }

  /** Before the next line. */
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

  /** @returns from where on: a line that was begun elsewhere is written whole */
  #reopened(lines: Buffer, from: number): number {
    const before = this.#fd
    try {
      this.#fd = openFile(this.#path)
    } catch (error) {
      this.#components.onProblem(error as Error)
      this.#isToReopen = false
      this.#checkedAt = this.#components.now() // and tried again at the next check
      return from
    }
    this.#isToReopen = false
    close(before, () => undefined)
    return from === 0 ? 0 : lines.lastIndexOf(newline, from - 1) + 1
  }
}

/** Behind a line that was cut, by a process that was killed or a full disk, the next begins on a line of its own. */
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

/** As far as it is taken: a pipe that is full, or a disk, does not keep a process from ending. */
function writeAtOnce(fd: number, bytes: Buffer): void {
  try {
    for (let at = 0; at < bytes.length; ) at += writeSync(fd, bytes, at)
  } catch {
    // there is nobody left to say it to
  }
}
