import { parseKindKey } from '../../../kubernetes/kind.ts'

/** @param pattern - `group/Kind`, or `Kind` for the core group; `*` in it is any text */
export function isLike(pattern: string, kind: string): boolean {
  const [wanted, own] = [parseKindKey(pattern), parseKindKey(kind)]
  return isLikeText(wanted.group, own.group) && isLikeText(wanted.kind, own.kind)
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
