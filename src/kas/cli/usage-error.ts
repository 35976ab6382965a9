/** The command line was wrong: told with its usage, exit code 2. */
export class UsageError extends Error {
  override readonly name = 'UsageError'
}

/** What a command needs that the command line does not name, or names twice. */
export function required<T>(value: T | undefined, what: string): T {
  if (value === undefined) throw new UsageError(`${what} is missing`)
  return value
}
