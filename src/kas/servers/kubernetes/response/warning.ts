/** Characters of a warning's text: a head has room for little more. */
const maxText = 1000

/**
 * Creates a value of the header `Warning` in Kubernetes' form: `299` is "miscellaneous, persistent".
 *
 * @param text - may come from others: characters that are invalid in a quoted string become question marks
 */
export function warning(text: string): string {
  const quoted = text
    .slice(0, maxText)
    .replaceAll(/[^\x20-\x7e]/g, '?')
    .replaceAll(/["\\]/g, '\\$&')
  return `299 - "GitLab Agent Server: ${quoted}"`
}
