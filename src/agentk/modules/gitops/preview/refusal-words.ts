import type { ApplyProblem, ApplyProblemKind } from '../live/refusal.ts'

/** Texts in place of those of the API server, of webhooks and of policies, which print live values. */
const words: Readonly<Record<ApplyProblemKind, string>> = {
  foreign: 'it belongs to others',
  conflict: 'fields of it belong to others',
  busy: 'others change it, or delete it',
  denied: "the source's account may not do that",
  invalid: 'the API server refuses it',
  immutable: 'a field of it cannot change in place',
  taken: 'another object has what it wants',
  quota: 'a quota allows no more',
  absent: 'something that it needs does not exist',
  unserved: 'the API server does not serve its kind in this version',
  webhook: 'an admission webhook does not answer',
  unavailable: 'the API server does not answer this now',
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
  return `${words[kind]}: ${mayPatch ? 'the reason is shown with values' : 'to see the reason, you need the right to patch it'}`
}
