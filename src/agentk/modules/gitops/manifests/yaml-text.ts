/** Returns the end of the brackets around `start`, as far as it is clear without the text before. */
export function bracketEnd(text: string, start: number): number {
  let depth = 1
  for (const { 0: sign, index } of text.slice(start).matchAll(tokens)) {
    if (sign === '[' || sign === '{') depth++
    else if (sign === ']' || sign === '}') depth--
    if (depth === 0) return start + index
  }
  return text.length
}

/** Tokens: quoted texts and comments as a whole, and brackets. */
const tokens = /(?<=^|[\s,:[{])"(?:[^"\\]|\\[\s\S])*"|(?<=^|[\s,:[{])'(?:[^']|'')*'|(?<=^|\s)#.*|[[\]{}]/gm

/** True if all tokens of the text are JSON's; its brackets may be in any order. */
export function hasFormOfJson(text: string): boolean {
  return /^[\s\d{}[\],:.+\-a-zE]*$/.test(text.replaceAll(/"(?:[^"\\]|\\[\s\S])*"/g, ''))
}

/** Lines of a text, found at the first use. */
export class TextLines {
  readonly #text: string
  readonly #first: number
  #starts: number[] | undefined

  constructor(text: string, first: number) {
    this.#text = text
    this.#first = first
  }

  /** @returns the number of the line that contains the character */
  at(offset: number): number {
    this.#starts ??= startsOf(this.#text)
    const starts = this.#starts
    let [low, high] = [0, starts.length]
    while (high - low > 1) {
      const middle = (low + high) >> 1
      if ((starts[middle] as number) <= offset) low = middle
      else high = middle
    }
    return this.#first + low
  }
}

function startsOf(text: string): number[] {
  const starts = [0]
  for (let end = text.indexOf('\n'); end >= 0; end = text.indexOf('\n', end + 1)) starts.push(end + 1)
  return starts
}
