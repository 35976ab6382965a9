/**
 * Messages that are all known before the first is read, such as those of a request without a body. They can be read
 * again, and one can be sent before the next hop has taken the one before.
 */
export class KnownMessages implements AsyncIterable<Uint8Array> {
  readonly all: readonly Uint8Array[]

  constructor(all: readonly Uint8Array[]) {
    this.all = all
  }

  get bytes(): number {
    return this.all.reduce((sum, { length }) => sum + length, 0)
  }

  async *[Symbol.asyncIterator](): AsyncGenerator<Uint8Array, void, void> {
    yield* this.all
  }
}
