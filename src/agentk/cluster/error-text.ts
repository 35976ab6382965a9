/** The message of an error; an AggregateError (all addresses refused) has an empty one of its own. */
export function errorText(error: unknown): string {
  if (!(error instanceof Error)) return String(error)
  if (error.message) return error.message
  if (error instanceof AggregateError) return error.errors.map(errorText).join('; ')
  return String((error as NodeJS.ErrnoException).code ?? 'unknown error')
}
