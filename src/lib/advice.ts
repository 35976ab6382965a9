/** What the operator may do next, told once, and again when it is something else. */
export class Advice {
  #told: string | undefined

  /** For a log line. */
  fields(nextStep: string | undefined): { readonly next_step?: string } {
    if (nextStep === undefined || nextStep === this.#told) return {}
    this.#told = nextStep
    return { next_step: nextStep }
  }

  /** All was well: the next mistake is a new one. */
  forget(): void {
    this.#told = undefined
  }
}
