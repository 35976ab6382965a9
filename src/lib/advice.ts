/** Gives the operator's next step once, and again when it changes. */
export class Advice {
  #last: string | undefined

  /** Returns the fields for a log line. */
  fields(nextStep: string | undefined): { readonly next_step?: string } {
    if (nextStep === undefined || nextStep === this.#last) return {}
    this.#last = nextStep
    return { next_step: nextStep }
  }

  /** Ends the mistake: the next one is new. */
  forget(): void {
    this.#last = undefined
  }
}
