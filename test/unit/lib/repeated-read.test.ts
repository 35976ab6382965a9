import t from 'tap'
import { RepeatedRead } from '../../../src/lib/repeated-read.ts'

/** Reads; the test ends each one. */
function ground() {
  const reads: (() => void)[] = []
  const reading = new RepeatedRead(() => new Promise((resolve) => reads.push(resolve)))
  const end = async () => {
    reads.at(-1)?.()
    await new Promise(setImmediate)
  }
  return { reading, reads, end }
}

t.test('one read at a time, and once more however often it was asked for meanwhile', async (t) => {
  const { reading, reads, end } = ground()
  const asked = [reading.now(), reading.now(), reading.now()]
  t.equal(reads.length, 1)
  await end()
  t.equal(reads.length, 2)
  await end()
  await Promise.all(asked)
  t.equal(reads.length, 2)
  const later = reading.now()
  t.equal(reads.length, 3)
  await end()
  await later
})

t.test('the end waits for the read that runs, and no other begins after it', async (t) => {
  const { reading, reads, end } = ground()
  void reading.now()
  void reading.now()
  let stopped = false
  const stopping = reading.stop().then(() => {
    stopped = true
  })
  await new Promise(setImmediate)
  t.equal(stopped, false)
  await end()
  await stopping
  t.equal(reads.length, 1)
})
