/** Sentences of comments and pages that a reader stumbles over. */
export interface ProseCounts {
  /** comments whose first sentence begins with a relative clause or "Of", and sentences of pages that do */
  readonly begins: number
  readonly pronouns: number
  /** sentences of more than 30 words */
  readonly long: number
  /** cells of tables in pages, of more than 160 characters */
  readonly cells: number
}

const longSentence = 30
const longCell = 160

/** A text for readers, and where it begins. */
export interface Passage {
  readonly line: number
  readonly text: string
}

const clause =
  /^(?:what|who|whoever|whom|whose|those|such|whether|which|whichever|whatever)\b|^(?:Of|What|Who|Whoever|Whom|Whose|Those|Such|Whether|Which|Whichever|Whatever)\b/
const pronoun = /\b(?:he|him|his|himself)\b/i
const mark = /^(?:biome-ignore|@ts-|wire:)/

/** The comments of a TypeScript file; lines of `//` that follow one another are one. */
export function commentsIn(source: string): Passage[] {
  const found: Passage[] = []
  const lines = source.split('\n')
  for (let at = 0; at < lines.length; at++) {
    const line = lines[at]?.trim() ?? ''
    const first = at
    if (line.startsWith('/*')) {
      while (at < lines.length && !lines[at]?.includes('*/')) at++
      const block = lines.slice(first, at + 1).map((one) => one.trim().replace(/^(?:\/\*+|\*(?!\/)) ?/, ''))
      found.push({
        line: first + 1,
        text: block
          .join('\n')
          .replace(/\s*\*\/[\s\S]*$/, '')
          .trim(),
      })
    } else if (line.startsWith('//')) {
      while (lines[at + 1]?.trim().startsWith('//')) at++
      const block = lines.slice(first, at + 1).map((one) => one.trim().slice(2).trim())
      found.push({ line: first + 1, text: block.join('\n') })
    } else {
      const trailing = /(?<=[\s;,{(])\/\/ (?<text>[^'"`]*)$/.exec(lines[at] ?? '')?.groups?.text
      if (trailing) found.push({ line: first + 1, text: trailing })
    }
  }
  return found.filter(({ text }) => text !== '' && !mark.test(text))
}

/** Paragraphs, items of lists and heads of a page of Markdown, without code; cells of its tables apart. */
export function passagesOf(page: string): { readonly prose: Passage[]; readonly cells: Passage[] } {
  const prose: Passage[] = []
  const cells: Passage[] = []
  let isCode = false
  let open: { line: number; lines: string[] } | undefined
  const close = () => {
    if (open) prose.push({ line: open.line, text: open.lines.join('\n') })
    open = undefined
  }
  for (const [index, raw] of page.split('\n').entries()) {
    const line = raw.trim()
    if (line.startsWith('```')) isCode = !isCode
    if (isCode || line.startsWith('```') || line === '') close()
    else if (line.startsWith('|')) {
      close()
      const texts = line.slice(1, -1).split(/(?<!\\)\|/)
      for (const text of texts) if (/\w/.test(text)) cells.push({ line: index + 1, text: text.trim() })
    } else {
      if (/^(?:[-*#>]|\d+\.)/.test(line)) close()
      open ??= { line: index + 1, lines: [] }
      open.lines.push(line.replace(/^(?:[-*#>]+|\d+\.) /, ''))
    }
  }
  close()
  return { prose, cells }
}

/** Splits at ends of sentences, at paragraphs and at tags of doc comments. Code and links count as one word. */
export function sentencesOf(text: string): string[] {
  return text
    .replaceAll(/`[^`]*`/g, 'X')
    .replaceAll(/\[([^\]]*)\]\([^)]*\)/g, '$1')
    .split(/\n\s*\n|\n\s*[-*] |@(?:param|returns?|throws?|default|see)\b|(?<=[.?!])\s+(?=[A-Z("X])/)
    .map((one) =>
      one
        .replaceAll(/\s+/g, ' ')
        .replace(/^\s*[\w.]+ - /, '')
        .trim(),
    )
    .filter((one) => one !== '')
}

const beginsWithClause = (sentence: string) => clause.test(sentence) && !sentence.endsWith('?')
const wordsOf = (sentence: string) => sentence.split(' ').filter((word) => /\w/.test(word)).length

/** @param sources - texts of TypeScript files. @param pages - texts of Markdown files */
export function proseCounts(sources: Iterable<string>, pages: Iterable<string>): ProseCounts {
  const comments = [...sources].flatMap((source) => commentsIn(source).map(({ text }) => sentencesOf(text)))
  const parts = [...pages].map(passagesOf)
  const inPages = parts.flatMap(({ prose }) => prose.flatMap(({ text }) => sentencesOf(text)))
  const all = [...comments.flat(), ...inPages]
  const firsts = comments.flatMap(([first]) => first ?? [])
  const cells = parts.flatMap(({ cells }) => cells)
  return {
    begins: [...firsts, ...inPages].filter(beginsWithClause).length,
    pronouns: [...all, ...cells.map(({ text }) => text)].filter((text) => pronoun.test(text)).length,
    long: all.filter((sentence) => wordsOf(sentence) > longSentence).length,
    cells: cells.filter(({ text }) => text.length > longCell).length,
  }
}

const preposition = /^(?:of|in|on|at|by|from|with|without|for|under|beside|to|into|as)(?=[A-Z])/

/** Functions whose names begin with a preposition, as declarations and constants of a file name them. */
export function prepositionsIn(source: string): string[] {
  const declared =
    /^(?:export )?(?:(?:async )?function\*? (\w+)|const (\w+) = (?:async )?(?:\([^)]*\)|\w+)(?:: [^=]+)? =>)/gm
  return [...source.matchAll(declared)]
    .map(([, one, other]) => one ?? other ?? '')
    .filter((name) => preposition.test(name))
}

/** Lines of a file that are neither blank nor comment. */
export function codeLines(source: string): number {
  const bare = source.replaceAll(/^\s*(?:\/\*[\s\S]*?\*\/|\/\/.*)$/gm, '')
  return bare.split('\n').filter((line) => line.trim() !== '').length
}
