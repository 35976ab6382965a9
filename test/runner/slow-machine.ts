/**
 * Loaded after tap: on a machine that is slower than the one of test/times.json, time-outs of tests are longer by as
 * much. They end what hangs; a subtest that has none of its own has its parent's.
 */
import t from 'tap'
import { patience, slowness } from '../support/slowness.ts'

interface Timed {
  setTimeout(ms: number): void
}

/** Where tap has what all of its tests have; its root has a method of that name beside it. */
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
