/** Where the brackets end that `start` is in, as far as that can be known without knowing what stands before. */
export function bracketEnd(text: string, start: number): number {
  let depth = 1
  for (const { 0: sign, index } of text.slice(start).matchAll(tokens)) {
    if (sign === '[' || sign === '{') depth++
    else if (sign === ']' || sign === '}') depth--
    if (depth === 0) return start + index
  }
  return text.length
}

/** Texts in quotes and comments, as a whole, and brackets. */
const tokens = /(?<=^|[\s,:[{])"(?:[^"\\]|\\[\s\S])*"|(?<=^|[\s,:[{])'(?:[^']|'')*'|(?<=^|\s)#.*|[[\]{}]/gm

/** It has nothing that JSON has not. No more is said: its brackets may be any. */
export function hasFormOfJson(text: string): boolean {
  return /^[\s\d{}[\],:.+\-a-zE]*$/.test(text.replaceAll(/"(?:[^"\\]|\\[\s\S])*"/g, ''))
}
