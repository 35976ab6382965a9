/** of an object or a list, and of each of its members */
const objectBytes = 32
const memberBytes = 16

/** What a value made of JSON takes in memory, more or less. */
export function roughBytes(value: unknown): number {
  let bytes = 0
  const rest = [value] // no recursion: who answers decides how deep it is
  while (rest.length > 0) {
    const next = rest.pop()
    bytes += memberBytes
    if (typeof next === 'string') bytes += 2 * next.length
    if (typeof next !== 'object' || next === null) continue
    bytes += objectBytes
    for (const member of Object.values(next)) rest.push(member)
  }
  return bytes
}
