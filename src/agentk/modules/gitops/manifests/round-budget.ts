import { maxObjects } from '../../../../proto/gitops/limits.ts'

/** Of one document: the characters of which each value needs one. */
export const maxMarks = 1_000_000
/** Of all texts of a commit, those included that its checks read. */
export const maxRoundMarks = 2 * maxMarks
/** Of all documents of a commit, in characters of JSON, what aliases stand for each time. */
export const maxTreeCharacters = 64 * 1024 * 1024
/** Of a commit, empty ones included: each costs its parser. */
export const maxDocuments = 2 * maxObjects
/**
 * Of the thread's heap for each mark of a document: bytes, twice what the worst of them take (a map with as many keys).
 * A thread may pass the limit of its heap by no more than 16 MiB at once, or the whole process ends: it must not come
 * near.
 */
const bytesOfMark = 500
/** Of its heap, before it reads anything. MiB */
const baseHeapMb = 16

/**
 * What may yet be read of a commit, by its checks and of its manifests together: who reads takes from it. Plain data,
 * as a thread hands it on.
 */
export interface RoundBudget {
  readonly maxMarks: number
  marks: number
  characters: number
  documents: number
}

/** @param heapMb - of the thread that reads. MiB */
export function roundBudget(heapMb: number = Number.POSITIVE_INFINITY): RoundBudget {
  const free = Math.max(heapMb - baseHeapMb, heapMb / 4) * 1024 * 1024
  const most = Math.floor(free / bytesOfMark)
  const left = { marks: maxRoundMarks, characters: maxTreeCharacters, documents: maxDocuments }
  return { maxMarks: Math.min(maxMarks, most), ...left }
}

/** At least one for each value but the first of its document. */
export function marksOf(text: string): number {
  let marks = 0
  for (let at = 0; at < text.length; at++) {
    const code = text.charCodeAt(at)
    if (code === 10 || code === 13 || code === 44 || code === 45 || code === 58 || code === 91 || code === 123) marks++
  }
  return marks
}

/** Takes a document's marks, before it is parsed. @returns why it may not be */
export function takeMarks(budget: RoundBudget, marks: number): string | undefined {
  const isTooMuch = marks > Math.min(budget.maxMarks, budget.marks)
  budget.marks = Math.max(0, budget.marks - marks)
  if (!isTooMuch) return undefined
  const most = `${budget.maxMarks} in a document, or ${maxRoundMarks} in all of the commit,`
  return `too many values: more than ${most} of , : - [ { and line ends`
}
