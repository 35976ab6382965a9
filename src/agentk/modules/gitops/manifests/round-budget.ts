import { maxObjects } from '../../../../proto/gitops/limits.ts'

/** Limit of marks in one document. A mark is one of the characters of which each value needs one. */
export const maxMarks = 1_000_000
/** Limit of marks in all texts of a commit, also in those that its checks read. */
export const maxRoundMarks = 2 * maxMarks
/** Limit of all documents of a commit, in characters of JSON. The value of an alias counts each time. */
export const maxTreeCharacters = 64 * 1024 * 1024
/** Limit of documents of a commit, also of empty ones: each costs a parser. */
export const maxDocuments = 2 * maxObjects
/**
 * Bytes of the thread's heap for each mark of a document: twice the worst case, a map with as many keys. A heap may
 * pass its limit by at most 16 MiB at once, or the whole process ends: it must not come near.
 */
const bytesOfMark = 500
/** Heap of the thread before it reads anything. MiB */
const baseHeapMb = 16

/**
 * Rest of a commit's budget, for its checks and its manifests together. Each reader takes from it. Threads exchange it
 * as plain data.
 */
export interface RoundBudget {
  readonly maxMarks: number
  marks: number
  characters: number
  documents: number
}

/** @param heapMb - heap of the thread that reads. MiB */
export function roundBudget(heapMb: number = Number.POSITIVE_INFINITY): RoundBudget {
  const free = Math.max(heapMb - baseHeapMb, heapMb / 4) * 1024 * 1024
  const most = Math.floor(free / bytesOfMark)
  const left = { marks: maxRoundMarks, characters: maxTreeCharacters, documents: maxDocuments }
  return { maxMarks: Math.min(maxMarks, most), ...left }
}

/** Counts the marks of a text: at least one for each value but the first of its document. */
export function marksOf(text: string): number {
  let marks = 0
  for (let at = 0; at < text.length; at++) {
    const code = text.charCodeAt(at)
    if (code === 10 || code === 13 || code === 44 || code === 45 || code === 58 || code === 91 || code === 123) marks++
  }
  return marks
}

/** Takes a document's marks from the budget, before it is parsed. @returns the reason for which it may not be */
export function takeMarks(budget: RoundBudget, marks: number): string | undefined {
  const isTooMuch = marks > Math.min(budget.maxMarks, budget.marks)
  budget.marks = Math.max(0, budget.marks - marks)
  if (!isTooMuch) return undefined
  const most = `${budget.maxMarks} in a document, or ${maxRoundMarks} in all of the commit,`
  return `too many values: more than ${most} of , : - [ { and line ends`
}
