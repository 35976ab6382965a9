/** Steps for a class of Unicode (`\pL`): the library merges all classes of a pattern with one another. */
const unicodeClassSteps = 100
/** product of the parts of a pattern and the characters of a text that is one step */
const matchedOfStep = 256

const token = /\\[\s\S]|\[(?:\\.|[^\]\\])*\]|\{(\d+)(?:,(\d*))?\}|[\s\S]/gu
const unicodeClass = /\\[pP]/g

/** Returns the steps for compiling a pattern of RE2 and trying it at each place of a text. */
export function patternSteps(pattern: string, textLength: number): number {
  const parts = patternParts(pattern)
  const classes = pattern.match(unicodeClass)?.length ?? 0
  return parts + classes ** 2 * unicodeClassSteps + Math.floor((parts * textLength) / matchedOfStep)
}

/** Counts the parts of a compiled pattern: a part that `{n}` repeats counts n times. The count is never too low. */
function patternParts(pattern: string): number {
  let group = { parts: 1, last: 0 }
  const around: (typeof group)[] = []
  const add = (parts: number) => {
    group.parts += parts
    group.last = parts
  }
  for (const [text, least = '', most = ''] of pattern.matchAll(token)) {
    if (text === '(') {
      around.push(group)
      group = { parts: 1, last: 0 }
    } else if (text === ')') {
      const { parts } = group
      group = around.pop() ?? group
      add(parts)
    } else if (least !== '') {
      const { last } = group
      group.parts -= last
      add(last * Math.max(1, Number(least), Number(most)))
    } else add(text.length)
  }
  return around.reduce((sum, { parts }) => sum + parts, group.parts)
}
