/**
 * Loaded before the tests of a process: tells on descriptor 3 when each of its first level `begins` and `ends`, a line
 * each. TAP does not: a test that has no result yet has no line.
 */
import { writeSync } from 'node:fs'
import t, { type Test } from 'tap'

const tell = (what: 'begins' | 'ends') => (test: Test) => {
  if (test.parent === t) writeSync(3, `${what}\n`)
}
t.beforeEach(tell('begins'))
t.afterEach(tell('ends'))
