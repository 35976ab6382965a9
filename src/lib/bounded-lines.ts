import type { LineSource } from './line-writer.ts'

/** Lines in their order, within a bound of bytes. Lines above it are lost, and counted. */
export class BoundedLines implements LineSource {
  readonly #maxBytes: number
  readonly #lostLine: (count: number) => string
  #lines: string[] = []
  #first = 0
  #bytes = 0
  #lost = 0

  /** @param lostLine - makes the line that replaces lost ones */
  constructor(maxBytes: number, lostLine: (count: number) => string) {
    this.#maxBytes = maxBytes
    this.#lostLine = lostLine
  }

  /** @param line - with its end */
  add(line: string): void {
    if (this.#bytes + Buffer.byteLength(line) > this.#maxBytes) {
      this.#lost += 1
      return
    }
    this.#reportLost() // the report follows the lines that came before the loss
    this.#push(line)
  }

  take(maxBytes: number): string | undefined {
    if (this.#first === this.#lines.length) this.#reportLost()
    let taken = this.#lines[this.#first]
    if (taken === undefined) return undefined
    let next = this.#lines[++this.#first]
    while (next !== undefined && taken.length + next.length <= maxBytes) {
      taken += next
      next = this.#lines[++this.#first]
    }
    this.#bytes -= Buffer.byteLength(taken)
    if (this.#first > this.#lines.length / 2) {
      this.#lines = this.#lines.slice(this.#first)
      this.#first = 0
    }
    return taken
  }

  #reportLost(): void {
    if (this.#lost === 0) return
    this.#push(this.#lostLine(this.#lost))
    this.#lost = 0
  }

  #push(line: string): void {
    this.#lines.push(line)
    this.#bytes += Buffer.byteLength(line)
  }
}
