/** characters of a text: a head has room for little more */
const maxText = 1000

/**
 * Makes a value of the header `Warning` as Kubernetes' own: `299` is "miscellaneous, persistent".
 *
 * @param text - may be of others: what a quoted string of a header cannot have becomes a question mark
 */
export function warning(text: string): string {
  const quoted = text
    .slice(0, maxText)
    .replaceAll(/[^\x20-\x7e]/g, '?')
    .replaceAll(/["\\]/g, '\\$&')
  return `299 - "GitLab Agent Server: ${quoted}"`
}
