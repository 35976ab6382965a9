/**
 * Runs what is not ours, and may be an async function whatever its type says.
 *
 * @param failed - gets what it threw, or rejects with
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
