/** User of a line, a session or a rule. */
export interface NamedUser {
  readonly id: bigint | string
  readonly name: string
}

const digits = /^\d+$/

/**
 * Matches users that an operator names, by id or by name. A number is only an id, since users choose their names, and
 * `@5` is the user with the name 5. Names are compared without case, as in GitLab and in the directory file.
 */
export function isNamedUser(texts: readonly string[]): (user: NamedUser) => boolean {
  const ids = new Set(texts.filter((text) => digits.test(text)))
  const names = new Set(texts.filter((text) => !digits.test(text)).map((text) => text.replace(/^@/, '').toLowerCase()))
  return ({ id, name }) => ids.has(String(id)) || (names.size > 0 && names.has(name.toLowerCase()))
}
