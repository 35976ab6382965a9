import type { Test } from 'tap'

let current: Test | undefined

/** Sets the subtest of the file that is imported next. */
export function begin(test: Test): void {
  current = test
}

export function own(): Test {
  if (!current) throw new Error('no file is run')
  return current
}
