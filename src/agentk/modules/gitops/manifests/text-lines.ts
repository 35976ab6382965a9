/** Where lines begin, found when it is first asked for. */
export class TextLines {
  readonly #text: string
  readonly #first: number
  #starts: number[] | undefined

  constructor(text: string, first: number) {
    this.#text = text
    this.#first = first
  }

  /** @returns the number of the line that a character is in */
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
