/**
 * Loaded after tap. On a machine slower than that of test/times.json, it lengthens the time-outs of tests by the same
 * factor. Time-outs end tests that hang; a subtest without its own time-out uses its parent's.
 */
import t from 'tap'
import { patience, slowness } from '../support/slowness.ts'

interface Timed {
  setTimeout(ms: number): void
}

/**
 * Returns the prototype with the methods that all of tap's tests share. tap's root has a `setTimeout` of its own
 * besides.
 */
function baseOf(test: object): Timed {
  const chain: object[] = []
  for (let each: object | null = test; each; each = Object.getPrototypeOf(each)) chain.push(each)
  return chain.findLast((each) => Object.hasOwn(each, 'setTimeout')) as Timed
}

if (slowness > 1) {
  const base = baseOf(t)
  const { setTimeout } = base
  base.setTimeout = function (ms) {
    setTimeout.call(this, patience(ms))
  }
}
