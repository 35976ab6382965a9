import { printable } from './text-table.ts'

/** characters of a path, of which the agent has chosen the keys */
const maxPath = 200

/** What came from kas, or through it from an agent, is not what it should be: nothing of it is to be believed. */
export class BadAnswer extends Error {
  override readonly name = 'BadAnswer'

  /** @param what - is wrong, as the end of a sentence */
  constructor(what: string, options?: ErrorOptions) {
    super(`what the agent says cannot be used: ${what}`, options)
  }

  /** Names the first key that is wrong, by its path, and no value. */
  static of({ issues: [issue] }: { readonly issues: readonly { readonly path: readonly PropertyKey[] }[] }): BadAnswer {
    const path = issue?.path.map(String).join('.').slice(0, maxPath)
    return new BadAnswer(path ? `${printable(path)} is missing or wrong` : 'it is not of the form of an answer')
  }
}
