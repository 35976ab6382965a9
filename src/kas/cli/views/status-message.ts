/** Characters of a `Status` that are shown. */
const maxMessage = 1000

/**
 * What kas answers with is a Status of Kubernetes, what stands in front of it may answer with anything.
 *
 * @returns its message; undefined: it is none
 */
export function statusMessage(body: string): string | undefined {
  try {
    const { message } = Object(JSON.parse(body)) as { message?: unknown }
    return typeof message === 'string' ? message.slice(0, maxMessage) : undefined
  } catch {
    return undefined // no JSON: it is not from kas
  }
}
