import type { ApplyProblem, ApplyProblemKind } from '../live/refusal.ts'

/** Texts about refusals for callers who may not patch the object: texts of the API server print live values. */
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

const hint = 'to see the reason, you need the right to patch it'

/** Returns why an object fails. @param mayPatch - the caller may patch objects of its kind there */
export function refusalText({ kind, text }: ApplyProblem, mayPatch: boolean): string {
  return mayPatch ? text : `${words[kind]}: ${hint}`
}
