/**
 * Runs foreign code, which may be an async function whatever its type says.
 *
 * @param failed - gets the error that it throws or rejects with
 * @returns its result; undefined: it threw
 */
export function guarded<T>(action: () => T, failed: (cause: unknown) => void): T | undefined {
  try {
    const result = action()
    if (result instanceof Promise) result.catch(failed)
    return result
  } catch (cause) {
    failed(cause)
    return undefined
  }
}
