/** Words of one idea that this project avoids, and their replacement. */
export interface BannedWord {
  /** words as in a name or a text, in lower case */
  readonly words: readonly string[]
  readonly write: string
  /** absent: avoided everywhere; 'names': only in names, since they are ordinary in sentences */
  readonly only?: 'names'
}

export const bannedWords: readonly BannedWord[] = [
  { words: ['told', 'untold', 'tell', 'tells', 'telling'], write: 'report, lastSent, known, callbacks: what it is' },
  { words: ['wish', 'wishes', 'wished'], write: 'directives, annotations' },
  { words: ['heir', 'heirs'], write: 'newOwner' },
  { words: ['held'], write: 'blocked, blockedBy; kept; locked only for a lock' },
  { words: ['look', 'looks', 'looked', 'looking'], write: 'check, poll, list, read' },
  { words: ['rehearse', 'rehearsal', 'rehearsed'], write: 'dry run' },
  { words: ['picture', 'pictures'], write: 'cluster cache, snapshot' },
  { words: ['quiet', 'silent'], write: 'suspect, dead', only: 'names' },
  { words: ['why', 'said'], write: 'reason, code', only: 'names' },
  { words: ['deed', 'deeds', 'news'], write: 'plan, step, result; gossip message' },
  { words: ['hear', 'hears', 'heard'], write: 'receive, read' },
  { words: ['beat', 'beats'], write: 'row heartbeat' },
  { words: ['vain', 'gone'], write: 'ended, closed, drained, retired', only: 'names' },
]

export interface FoundWord {
  readonly line: number
  readonly word: string
  /** name that contains it */
  readonly name: string
}

/** Characters before and after a name that is declared or assigned; in a sentence the same word has others. */
const namesAndWords =
  /(?<before>[#.]|^\s*|[({,]\s*|\b(?:const|let|readonly|get|async|function)\s+)?\b(?<name>[A-Za-z][A-Za-z0-9_]*)\b(?<after>\??[:(,})]|\s*=)?/g

/** Splits `heldByAgent` and `HELD_BACK` into held, by, agent and held, back. */
const partsOf = (name: string) =>
  name
    .replaceAll(/([a-z0-9])([A-Z])/g, '$1 $2')
    .split(/[ _]/)
    .map((part) => part.toLowerCase())

/** Returns each avoided word in a text, with its line and its name. */
export function bannedWordsIn(text: string, words: readonly BannedWord[] = bannedWords): FoundWord[] {
  const found: FoundWord[] = []
  for (const [index, line] of text.split('\n').entries()) {
    const isSentence = /^\s*(?:\*|\/\*|\/\/)/.test(line)
    for (const { groups } of line.replaceAll(/\b[Ll]ook(?:s|ed|ing)? up\b/g, '').matchAll(namesAndWords)) {
      const { before, name = '', after } = groups ?? {}
      const parts = partsOf(name)
      const isDeclared = before !== undefined && after !== undefined && !isSentence
      const isName = parts.length > 1 || before === '#' || before === '.' || isDeclared
      for (const { words: own, only } of words) {
        if (only === 'names' && !isName) continue
        for (const word of parts) if (own.includes(word)) found.push({ line: index + 1, word, name })
      }
    }
  }
  return found
}
