import { KasError } from '../../lib/errors.ts'

/** Bytes of an answer's head: as much as kas takes of a request's. */
export const maxAnswerHeadBytes = 64 * 1024
/** Header lines of it: as many as kas takes of a request. */
export const maxAnswerLines = 500
/** Answers before the answer (1xx): Go's client long took 5. Each has a head of its own, and nothing holds them up. */
export const maxInformationalAnswers = 20

export function tooManyBytes(cause?: unknown): KasError {
  return unreadable(`its head has more than ${maxAnswerHeadBytes} bytes`, cause)
}

export function tooManyLines(): KasError {
  return unreadable(`its head has more than ${maxAnswerLines} lines`)
}

export function tooManyInformational(): KasError {
  return unreadable(`more than ${maxInformationalAnswers} informational answers (1xx) come before it`)
}

function unreadable(reason: string, cause?: unknown): KasError {
  const detail = `the answer of the API server, or of what it passes on, is not read: ${reason}`
  return new KasError({ code: 'UNREACHABLE', detail }, cause === undefined ? {} : { cause })
}
