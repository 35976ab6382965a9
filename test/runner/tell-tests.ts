/**
 * Loaded before the tests of a process. Reports on descriptor 3, one line each, when a test of the first level `begins`
 * and `ends`. TAP has no line for a test without a result.
 */
import { writeSync } from 'node:fs'
import t, { type Test } from 'tap'

const tell = (what: 'begins' | 'ends') => (test: Test) => {
  if (test.parent === t) writeSync(3, `${what}\n`)
}
t.beforeEach(tell('begins'))
t.afterEach(tell('ends'))
