/** Of whom a line, a session or a rule is. */
export interface NamedUser {
  readonly id: bigint | string
  readonly name: string
}

const digits = /^\d+$/

/**
 * Whom an operator means, by id or by name: a number is an id alone, since users choose their names, and `@5` is who has the name 5.
 * Names go without case, as in GitLab and in the directory file.
 */
export function isNamedUser(texts: readonly string[]): (user: NamedUser) => boolean {
  const ids = new Set(texts.filter((text) => digits.test(text)))
  const names = new Set(texts.filter((text) => !digits.test(text)).map((text) => text.replace(/^@/, '').toLowerCase()))
  return ({ id, name }) => ids.has(String(id)) || (names.size > 0 && names.has(name.toLowerCase()))
}
