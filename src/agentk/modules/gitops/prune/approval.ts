/** What somebody has approved of a source, as its round found it: good once. */
export class Approval {
  /** of a plan; empty: nothing is approved */
  readonly digest: string
  readonly #use: (signal: AbortSignal) => Promise<void>
  #used: Promise<void> | undefined

  /** @param use - takes it back. @throws: it still is approved, or something else is by now */
  constructor(digest: string, use: (signal: AbortSignal) => Promise<void>) {
    this.digest = digest
    this.#use = use
  }

  /** Before anything goes by it, and where no plan can be meant. @throws: nothing may go */
  use(signal: AbortSignal): Promise<void> {
    this.#used ??= this.#use(signal)
    return this.#used
  }
}
