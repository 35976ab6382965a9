/** @param pattern - `group/Kind`, or `Kind` of the core group; `*` in it is any text */
export function isLike(pattern: string, kind: string): boolean {
  const [patternGroup, patternKind] = split(pattern)
  const [group, name] = split(kind)
  return isLikeText(patternGroup, group) && isLikeText(patternKind, name)
}

const split = (kind: string): [group: string, name: string] => {
  const slash = kind.indexOf('/')
  return slash < 0 ? ['', kind] : [kind.slice(0, slash), kind.slice(slash + 1)]
}

function isLikeText(pattern: string, text: string): boolean {
  const [first = '', ...rest] = pattern.split('*')
  if (rest.length === 0) return pattern === text
  const last = rest.pop() as string
  if (!text.startsWith(first) || !text.endsWith(last) || text.length < first.length + last.length) return false
  let at = first.length
  for (const piece of rest) {
    at = text.indexOf(piece, at)
    if (at < 0 || at + piece.length > text.length - last.length) return false
    at += piece.length
  }
  return true
}
