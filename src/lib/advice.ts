/** What the operator may do next, said once, and again when it is something else. */
export class Advice {
  #last: string | undefined

  /** For a log line. */
  fields(nextStep: string | undefined): { readonly next_step?: string } {
    if (nextStep === undefined || nextStep === this.#last) return {}
    this.#last = nextStep
    return { next_step: nextStep }
  }

  /** All was well: the next mistake is a new one. */
  forget(): void {
    this.#last = undefined
  }
}
