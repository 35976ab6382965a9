import { KasError } from '../../../lib/errors.ts'

/**
 * Globs as stock kas matches them (the second version of doublestar): `*` and `?` within one part of a path, `**` alone
 * in its place for any number of parts, `[a-z]`, `[^a]`, `{a,b}`, a backslash before what means itself. A leading dot is
 * a character like any other. Who writes the globs owns the files as well, so matching never goes back: its cost is at
 * most the length of the glob times that of the path, whatever either holds. It is counted, and has an end.
 */
export interface Glob {
  /** the folder, as a full path, below which all lies that can match; empty: the root */
  readonly folder: string
  /** one for each of what it is written as when all `{a,b}` are written out */
  readonly alternatives: readonly Matcher[]
}

/** Whether a path matches. @throws KasError MANIFESTS_REFUSED if that takes too long to find out */
export type Matcher = (path: ComparedPath, effort: Effort) => boolean

/** The parts of a path, each as its characters. */
type PathNames = readonly (readonly string[])[]

/** A path that is compared with many globs: taken apart once, if at all. */
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

/** What comparisons took, in comparisons of one character. */
export interface Effort {
  steps: number
}

/** A place in a glob, for one part of a path. */
const stepsOfPlace = 10
/** A path, taken apart. */
const stepsOfCharacter = 4
/** A glob that ends otherwise. */
const stepsOfEnd = 4

/** Of a path of 4,096 characters and a glob with some dozens of `*`: others wait for one comparison, some 5 ms. */
const maxStepsOfComparison = 200_000

/** of one glob, once all `{a,b}` are written out */
const maxAlternatives = 100
const maxGlobLength = 1024
/** `{` in one glob, also those that stand for nothing: each is written out in all alternatives that it has so far */
const maxBraces = 20

type Token =
  | { readonly kind: 'star' }
  | { readonly kind: 'any' }
  | { readonly kind: 'character'; readonly character: string }
  | { readonly kind: 'class'; readonly isNegated: boolean; readonly ranges: readonly (readonly [string, string])[] }

type Part = '**' | readonly Token[]

/**
 * Reads a glob; a slash at its beginning is left out.
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

/** What all that match end with: most globs end with `.yaml`, and most that differ do so there. */
function literalEnd(parts: readonly Part[]): string {
  const last = parts.at(-1)
  if (last === undefined || last === '**') return ''
  const from = last.findLastIndex(({ kind }) => kind !== 'character') + 1
  return last
    .map((token) => (token.kind === 'character' ? token.character : ''))
    .slice(from)
    .join('')
}

/** All that `{a,b}` stand for, nested ones too; in each the characters that are escaped stay so. */
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

/** Where one of these stands, not escaped and in no class; -1: nowhere; `undefined`: the glob ends in the middle. */
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

/** Where the `]` of the class that begins here is. */
function endOfClass(glob: readonly string[], open: number): number | undefined {
  for (let at = open + 1; at < glob.length; at += 1) {
    if (glob[at] === '\\') at += 1
    else if (glob[at] === ']' && at > open + 1) return at
  }
  return undefined
}

/** @returns undefined if it is malformed */
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

/** One comparison, which ends without an answer once there are more steps. */
interface BoundedEffort {
  readonly effort: Effort
  readonly maxSteps: number
}

/** Follows all places of the glob at once that what was read of the path can stand for. */
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

/** With the places behind each `**`, which may stand for nothing; for something, if it is the last. */
function reached(parts: readonly Part[], places: Iterable<number>): Set<number> {
  const all = new Set(places)
  for (const place of all) if (parts[place] === '**' && place + 1 < parts.length) all.add(place + 1)
  return all
}

/** One part against one name: of all stars the last that was passed may take more, which is enough. */
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
