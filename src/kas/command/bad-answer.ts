import type { ZodType } from 'zod'
import { printable } from '../../lib/printable.ts'

/** bound of a path in characters, because the agent has chosen the keys */
const maxPath = 200

/** An answer of kas, or of an agent through it, is invalid: no part of it can be used. */
export class BadAnswer extends Error {
  override readonly name = 'BadAnswer'

  /** @param what - the fault, as the end of a sentence */
  constructor(what: string, options?: ErrorOptions) {
    super(`what the agent says cannot be used: ${what}`, options)
  }
}

/** @throws BadAnswer with the path of the first wrong key, without its value */
export function readAnswer<T>(schema: ZodType<T>, json: string): T {
  let answer: unknown
  try {
    answer = JSON.parse(json)
  } catch (cause) {
    throw new BadAnswer('it is no JSON', { cause })
  }
  const { success, data, error } = schema.safeParse(answer)
  if (success) return data
  const [issue] = error.issues
  const path = issue?.path.map(String).join('.').slice(0, maxPath)
  const allowed = issue?.code === 'custom' ? `, allowed is ${issue.message}` : ''
  throw new BadAnswer(path ? `${printable(path)} is missing or wrong${allowed}` : 'it is not of the form of an answer')
}
