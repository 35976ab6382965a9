/**
 * Messages that are all known before the first is read, as those of a request without a body. They can be read again,
 * and be sent without waiting for one another.
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
