/** Reader of a program's output, as it comes. @throws: the program ends, with this error */
export interface OutputReader {
  add(chunk: Uint8Array): void
}

/** The output is more than may be kept. */
export class OutputTooLarge extends Error {}

/** Keeps the output as it comes, in memory that threads share: it is not copied again. */
export class KeptOutput implements OutputReader {
  readonly #memory: SharedArrayBuffer
  #length = 0

  constructor(maxBytes: number) {
    this.#memory = new SharedArrayBuffer(0, { maxByteLength: maxBytes })
  }

  get bytes(): Uint8Array {
    return new Uint8Array(this.#memory, 0, this.#length)
  }

  add(chunk: Uint8Array): void {
    const [start, length] = [this.#length, this.#length + chunk.length]
    const most = this.#memory.maxByteLength
    if (length > most) throw new OutputTooLarge(`it printed more than ${most} bytes`)
    if (length > this.#memory.byteLength) this.#memory.grow(Math.min(most, Math.max(length, start + growBytes)))
    new Uint8Array(this.#memory).set(chunk, start)
    this.#length = length
  }
}

const growBytes = 1024 * 1024

/** The output is not the same as before. */
export class OutputDiffers extends Error {
  /** offset of the first byte that differs */
  readonly offset: number

  constructor(offset: number) {
    super('it renders differently each time, as random values do')
    this.offset = offset
  }
}

/** Compares the output of a second run. It ends the program at the first difference, and keeps nothing. */
export class ComparedOutput implements OutputReader {
  readonly #first: Buffer
  #at = 0

  constructor(first: Uint8Array) {
    this.#first = Buffer.from(first.buffer, first.byteOffset, first.byteLength)
  }

  /** @throws OutputDiffers */
  add(chunk: Uint8Array): void {
    const before = this.#first.subarray(this.#at, this.#at + chunk.length)
    if (!before.equals(chunk)) throw new OutputDiffers(this.#at + commonBytes(before, chunk))
    this.#at += chunk.length
  }

  /** Ends the comparison: the output is complete. @throws OutputDiffers */
  end(): void {
    if (this.#at < this.#first.length) throw new OutputDiffers(this.#at)
  }
}

function commonBytes(one: Uint8Array, other: Uint8Array): number {
  let at = 0
  while (at < one.length && at < other.length && one[at] === other[at]) at++
  return at
}

/** Returns the name of a rendered file: its lines are those of a program's output. */
export function renderedName(path: string): string {
  return `${path} (rendered)`
}

/** Returns the line of `offset`, from 1, counted from `start`. */
export function lineAt(bytes: Uint8Array, start: number, offset: number): number {
  let line = 1
  for (let at = start; at < offset; at++) if (bytes[at] === 10) line++
  return line
}
