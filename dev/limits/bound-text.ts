import type { Bound } from '../census/bounds.ts'

type Unit = 'bytes' | 'ms' | 's' | 'days' | 'MB' | 'characters' | 'letters' | 'levels'

/** units by the words of a name */
const unitWords = new Map<string, Unit>([
  ['bytes', 'bytes'],
  ['ms', 'ms'],
  ['seconds', 's'],
  ['days', 'days'],
  ['mb', 'MB'],
  ['characters', 'characters'],
  ['chars', 'characters'],
  ['length', 'characters'],
  ['depth', 'levels'],
])

/** `characters of a name`, `bytes`, `in ms`, `limit of the characters of a text` */
const unitInComment =
  /(?:^|[.,:;] |\bin |\b(?:limit|bound|number)s? of (?:the )?)(bytes|characters|letters|ms|MB)(?![\w-])/i

/** larger units of a unit, the largest first */
const largerUnits: Readonly<Partial<Record<Unit, readonly (readonly [name: string, size: number])[]>>> = {
  bytes: [
    ['GiB', 2 ** 30],
    ['MiB', 2 ** 20],
    ['KiB', 2 ** 10],
  ],
  ms: [
    ['h', 3_600_000],
    ['min', 60_000],
    ['s', 1000],
  ],
  s: [
    ['h', 3600],
    ['min', 60],
  ],
}

/** no cell of a table is longer, in characters */
const longestCell = 160

const wordsOf = (name: string) => name.split(/\.|(?=[A-Z])/).map((word) => word.toLowerCase())

/** Returns the unit that the name of a bound has, or else its comment; undefined: it is a number of things. */
export function unitOf({ name, comment }: Bound): Unit | undefined {
  const word = wordsOf(name).findLast((one) => unitWords.has(one))
  if (word !== undefined) return unitWords.get(word)
  return unitInComment.exec(comment)?.[1]?.replace(/^[A-Z](?=[a-z])/, (first) => first.toLowerCase()) as
    | Unit
    | undefined
}

/** Returns a value with its unit: `64 KiB`, `1.5 MiB`, `20 s`, `10,000`. */
export function valueText(bound: Bound): string {
  const unit = unitOf(bound)
  const value = Number(bound.value)
  const isRound = (size: number) => value >= size && Number.isInteger((value * 2) / size)
  const larger = unit && largerUnits[unit]?.find(([, size]) => isRound(size))
  const [name, number] = larger ? [larger[0], value / larger[1]] : [unit, bound.value]
  const rate = /persecond/i.test(bound.name) || /\bper second\b/.test(bound.comment) ? '/s' : ''
  return [number.toLocaleString('en'), name].filter(Boolean).join(' ') + rate
}

/** Returns the first sentence of a comment, and as many more as fit in a cell. The value has a unit at the end. */
export function commentText({ comment }: Pick<Bound, 'comment'>): string {
  const [paragraph = ''] = comment.split(/\n\s*(?:\n|@)/)
  const [first = '', ...more] = paragraph
    .replaceAll(/\s+/g, ' ')
    .trim()
    .replace(/(?<=[.?!]) (?:in )?(?:bytes|characters|letters|ms|MB)\.?$/i, '')
    .split(/(?<=[.?!])(?<!\bno\.) (?=["(`A-Z\d])/)
  let text = first
  for (const sentence of more) {
    if (text.length + 1 + sentence.length > longestCell) break
    text += ` ${sentence}`
  }
  return text
}

/** a word that is no thing, or no plural */
const noThing = /^(?:is|as|its|has|was|this|kas|us|less|plus|always|besides|unless|address|access|process|class)$/

/** Returns faults of a bound: without comment, of one that is too long for a cell, or of one without any unit. */
export function boundFaults(bound: Bound): string[] {
  const text = commentText(bound)
  const faults: string[] = []
  if (text === '') faults.push('no comment says what it bounds')
  if (text.length > longestCell) faults.push(`the first sentence has more than ${longestCell} characters`)
  const words = [
    ...wordsOf(bound.name),
    ...text
      .toLowerCase()
      .split(/[^a-z']+/)
      .slice(0, 10),
  ]
  const isPlural = (word: string) => /[^s]s$|^children$/.test(word) && !noThing.test(word)
  if (unitOf(bound) === undefined && !words.some(isPlural))
    faults.push('neither name nor comment has a unit, or names things')
  return faults
}
