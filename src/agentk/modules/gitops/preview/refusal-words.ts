import type { ApplyProblem, ApplyProblemKind } from '../live/refusal.ts'

/** Texts in place of those of the API server, of webhooks and of policies, which print live values. */
const words: Readonly<Record<ApplyProblemKind, string>> = {
  foreign: 'it belongs to others',
  conflict: 'fields of it belong to others',
  busy: 'others change it, or delete it',
  denied: "the source's account may not do that",
  invalid: 'the API server does not take it',
  immutable: 'only a new object could have what Git wants',
  taken: 'another object has what it wants',
  quota: 'a quota allows no more',
  absent: 'something that it needs does not exist',
  unserved: 'nobody serves its kind in this version',
  webhook: 'an admission webhook does not answer',
  unavailable: 'the API server cannot say that now',
}

/** Caller for whom a refusal is shown. */
export interface RefusalReader {
  /** the caller may patch objects of its kind there */
  readonly mayPatch: boolean
  /** live values are shown */
  readonly values: boolean
}

/** Returns why an object fails. */
export function refusalText({ kind, text }: ApplyProblem, { mayPatch, values }: RefusalReader): string {
  if (mayPatch && values) return text
  return `${words[kind]}: ${mayPatch ? 'the reason is shown with live values' : 'who may patch it sees the reason'}`
}
