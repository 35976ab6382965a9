import { KasError } from '../../../lib/errors.ts'

/**
 * A glob as stock kas matches it (the second version of doublestar). `*` and `?` match within one part of a path. `**`
 * alone in a part matches any number of parts. `[a-z]`, `[^a]` and `{a,b}` are known; a backslash makes the next
 * character literal. A leading dot is a character like any other.
 *
 * The author of the globs owns the files as well, so matching never backtracks. Its cost is at most the product of the
 * lengths of glob and path; it is counted and bounded.
 */
export interface Glob {
  /** full path of the folder above all possible matches; empty: the root */
  readonly folder: string
  /** one matcher per pattern after all `{a,b}` are expanded */
  readonly alternatives: readonly Matcher[]
}

/** Returns true if a path matches. @throws KasError MANIFESTS_REFUSED if the comparison takes too long */
export type Matcher = (path: ComparedPath, effort: Effort) => boolean

/** The parts of a path, each as its characters. */
type PathNames = readonly (readonly string[])[]

/** A path to compare with many globs: split once, if at all. */
export class ComparedPath {
  readonly text: string
  #names: PathNames | undefined

  constructor(text: string) {
    this.text = text
  }

  names(effort: Effort): PathNames {
    if (!this.#names) {
      effort.steps += this.text.length * stepsOfCharacter
      this.#names = this.text.split('/').map((name) => Array.from(name))
    }
    return this.#names
  }
}

/** Cost of comparisons, in comparisons of one character. */
export interface Effort {
  steps: number
}

/** Steps for one place in a glob and one part of a path. */
const stepsOfPlace = 10
/** Steps for one character of a path that is split. */
const stepsOfCharacter = 4
/** Steps for the end of a glob, which is compared first. */
const stepsOfEnd = 4

/** Steps of one comparison, some 5 ms: enough for a path of 4,096 characters and a glob with some dozens of `*`. */
const maxStepsOfComparison = 200_000

/** patterns of one glob, after all `{a,b}` are expanded */
const maxAlternatives = 100
/** characters of one glob */
const maxGlobLength = 1024
/** `{` in one glob, also literal ones: each is expanded in all patterns so far */
const maxBraces = 20

type Token =
  | { readonly kind: 'star' }
  | { readonly kind: 'any' }
  | { readonly kind: 'character'; readonly character: string }
  | { readonly kind: 'class'; readonly isNegated: boolean; readonly ranges: readonly (readonly [string, string])[] }

type Part = '**' | readonly Token[]

/**
 * Parses a glob; a slash at its beginning is dropped.
 *
 * @throws KasError MANIFESTS_REFUSED
 */
export function readGlob(text: string): Glob {
  const glob = text.replace(/^\//, '')
  const refused = (reason: string) =>
    new KasError({ code: 'MANIFESTS_REFUSED', detail: `glob ${text.slice(0, maxGlobLength)} match failed: ${reason}` })
  if (glob.length > maxGlobLength) throw refused(`more than ${maxGlobLength} characters`)
  if (glob.split('{').length - 1 > maxBraces) throw refused(`more than ${maxBraces} {`)
  const written = alternatives(Array.from(glob))
  if (written === 'malformed') throw refused('syntax error in pattern')
  if (written === 'too many') throw refused(`more than ${maxAlternatives} alternatives`)
  const patterns = written.map(partsOf)
  if (!patterns.every((each) => each !== undefined)) throw refused('syntax error in pattern')
  const [, folder = ''] = /^([^\\*?[\]{}]+)\//.exec(glob) ?? []
  return {
    folder,
    alternatives: patterns.map((parts) => {
      const end = literalEnd(parts)
      const tooLong = (path: ComparedPath) =>
        refused(`it takes too long to compare with a path of ${path.text.length} characters: write fewer * into it`)
      return (path, effort) => {
        effort.steps += stepsOfEnd
        if (!path.text.endsWith(end)) return false
        const names = path.names(effort)
        const bounded = { effort, maxSteps: effort.steps + maxStepsOfComparison }
        const isMatch = matchParts(parts, names, bounded)
        if (effort.steps > bounded.maxSteps) throw tooLong(path)
        return isMatch
      }
    }),
  }
}

/** Returns the literal end of all matches: most globs end with `.yaml`, and most mismatches show there. */
function literalEnd(parts: readonly Part[]): string {
  const last = parts.at(-1)
  if (last === undefined || last === '**') return ''
  const from = last.findLastIndex(({ kind }) => kind !== 'character') + 1
  return last
    .map((token) => (token.kind === 'character' ? token.character : ''))
    .slice(from)
    .join('')
}

/** Expands each `{a,b}`, nested ones too; escaped characters stay escaped. */
function alternatives(glob: readonly string[]): string[][] | 'malformed' | 'too many' {
  const open = indexOutside(glob, 0, ['{'])
  if (open === undefined) return 'malformed'
  if (open < 0) return [[...glob]]
  const options: string[][] = []
  let depth = 0
  let from = open + 1
  for (let at = from; ; at += 1) {
    const next = indexOutside(glob, at, ['{', '}', ','])
    if (next === undefined || next < 0) return 'malformed'
    at = next
    const character = glob[at]
    if (character === '{') depth += 1
    else if (character === '}' && depth > 0) depth -= 1
    else if (depth === 0) {
      options.push(glob.slice(from, at))
      from = at + 1
      if (character === '}') break
    }
  }
  const [before, after] = [glob.slice(0, open), glob.slice(from)]
  const found: string[][] = []
  for (const option of options) {
    const written = alternatives([...before, ...option, ...after])
    if (typeof written === 'string') return written
    found.push(...written)
    if (found.length > maxAlternatives) return 'too many'
  }
  return found
}

/**
 * Returns the index of one of `wanted`, unescaped and outside of classes; -1: there is none; `undefined`: a class does
 * not end.
 */
function indexOutside(glob: readonly string[], from: number, wanted: readonly string[]): number | undefined {
  for (let at = from; at < glob.length; at += 1) {
    const character = glob[at] as string
    if (wanted.includes(character)) return at
    if (character === '\\') at += 1
    else if (character === '[') {
      const end = endOfClass(glob, at)
      if (end === undefined) return undefined
      at = end
    }
  }
  return -1
}

/** Returns the index of the `]` that closes the class at `open`; undefined: there is none. */
function endOfClass(glob: readonly string[], open: number): number | undefined {
  for (let at = open + 1; at < glob.length; at += 1) {
    if (glob[at] === '\\') at += 1
    else if (glob[at] === ']' && at > open + 1) return at
  }
  return undefined
}

/** @returns undefined: the glob is malformed */
function partsOf(glob: readonly string[]): Part[] | undefined {
  const parts: Part[] = []
  let tokens: Token[] = []
  let isDouble = false
  const end = () => {
    parts.push(isDouble ? '**' : tokens)
    tokens = []
    isDouble = false
  }
  for (let at = 0; at < glob.length; at += 1) {
    const character = glob[at] as string
    if (character === '/') {
      end()
      continue
    }
    if (tokens.length === 0) isDouble = isDoubleStar(glob, at)
    if (character === '*') tokens.push({ kind: 'star' })
    else if (character === '?') tokens.push({ kind: 'any' })
    else if (character === '[') {
      const close = endOfClass(glob, at)
      const token = close === undefined ? undefined : classOf(glob.slice(at + 1, close))
      if (!token || close === undefined) return undefined
      tokens.push(token)
      at = close
    } else {
      if (character === '\\') at += 1
      const meant = glob[at]
      if (meant === undefined) return undefined
      tokens.push({ kind: 'character', character: meant })
    }
  }
  end()
  return parts
}

function isDoubleStar(glob: readonly string[], at: number): boolean {
  return glob[at] === '*' && glob[at + 1] === '*' && (glob[at + 2] === undefined || glob[at + 2] === '/')
}

function classOf(characters: readonly string[]): Token | undefined {
  const isNegated = characters[0] === '^' || characters[0] === '!'
  const ranges: (readonly [string, string])[] = []
  let at = isNegated ? 1 : 0
  const next = () => {
    if (characters[at] === '\\') at += 1
    const character = characters[at]
    at += 1
    return character
  }
  while (at < characters.length) {
    const low = next()
    const isRange = characters[at] === '-' && at + 1 < characters.length
    if (isRange) at += 1
    const high = isRange ? next() : low
    if (low === undefined || high === undefined) return undefined
    ranges.push([low, high])
  }
  return ranges.length === 0 ? undefined : { kind: 'class', isNegated, ranges }
}

/** One comparison, which ends without an answer beyond `maxSteps`. */
interface BoundedEffort {
  readonly effort: Effort
  readonly maxSteps: number
}

/** Compares with all places of the glob that the parts read so far can have reached. */
function matchParts(parts: readonly Part[], names: PathNames, bounded: BoundedEffort): boolean {
  const { effort, maxSteps } = bounded
  let places = reached(parts, [0])
  for (const name of names) {
    const next = new Set<number>()
    effort.steps += places.size * stepsOfPlace
    for (const place of places) {
      if (effort.steps > maxSteps) return false
      const part = parts[place]
      if (part === undefined) continue
      if (part === '**') next.add(place).add(place + 1)
      else if (matchName(part, name, bounded)) next.add(place + 1)
    }
    places = reached(parts, next)
    if (places.size === 0) return false
  }
  return places.has(parts.length)
}

/** Adds the places behind each `**`, which may match no part; the last `**` matches at least one. */
function reached(parts: readonly Part[], places: Iterable<number>): Set<number> {
  const all = new Set(places)
  for (const place of all) if (parts[place] === '**' && place + 1 < parts.length) all.add(place + 1)
  return all
}

/** Compares one part with one name. Only the last `*` that was passed takes more characters, which is enough. */
function matchName(tokens: readonly Token[], name: readonly string[], { effort, maxSteps }: BoundedEffort): boolean {
  let [at, token] = [0, 0]
  let star: { readonly token: number; at: number } | undefined
  while (at < name.length) {
    if (effort.steps > maxSteps) return false
    const current = tokens[token]
    effort.steps += current?.kind === 'class' ? current.ranges.length : 1
    if (current?.kind === 'star') star = { token: token++, at }
    else if (current && matchOne(current, name[at] as string)) {
      at += 1
      token += 1
    } else if (star) {
      star.at += 1
      at = star.at
      token = star.token + 1
    } else return false
  }
  while (tokens[token]?.kind === 'star') token += 1
  return token === tokens.length
}

function matchOne(token: Token, character: string): boolean {
  if (token.kind === 'character') return token.character === character
  if (token.kind !== 'class') return true
  return token.ranges.some(([low, high]) => low <= character && character <= high) !== token.isNegated
}
