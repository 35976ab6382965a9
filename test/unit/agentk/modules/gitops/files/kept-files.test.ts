import t from 'tap'
import { KeptFiles, SharedBytes } from '../../../../../../src/agentk/modules/gitops/files/kept-files.ts'

const [one, two] = [{}, {}]
const bytes = (count: number) => [new Uint8Array(count)]

/** Adds all files of a set, as they would arrive. */
function bring(files: KeptFiles, source: object, blobs: Readonly<Record<string, number>>, projectId = 7n) {
  const arrival = files.arrival(source, projectId)
  try {
    const set = Object.entries(blobs).map(([blob, size]) => ({
      path: blob,
      blob,
      data: arrival.add(blob, bytes(size)),
    }))
    arrival.keep()
    return set
  } finally {
    arrival.leave()
  }
}

t.test('sources share the bytes; each has its share in any case', async (t) => {
  const files = new KeptFiles(100, () => 4)
  bring(files, one, { a: 90 })
  t.throws(() => bring(files, two, { b: 30 }), { message: /files of all sources take more than 100 bytes/ })
  bring(files, two, { b: 25 })
  files.release(one)
  bring(files, two, { c: 90 })
  bring(files, two, { d: 95 }, 7n)
  files.release(two)
  bring(files, one, { a: 100 })
})

t.test('what sources of one project have alike is kept once', async (t) => {
  const files = new KeptFiles(100, () => 4)
  const [first] = bring(files, one, { a: 90 })
  const [second] = bring(files, two, { a: 90 })
  t.equal(first?.data, second?.data)
  t.throws(() => bring(files, {}, { a: 90 }, 8n), { message: /more than 100 bytes/ }, 'of another project')
  files.release(one)
  t.throws(() => bring(files, {}, { z: 50 }), { message: /more than 100 bytes/ }, 'the other one has it still')
  files.release(two)
  t.equal(bring(files, {}, { z: 100 }).length, 1)
})

t.test('content is in memory that threads share', async (t) => {
  const [file] = bring(new KeptFiles(100, () => 1), one, { '': 10 })
  t.ok(file?.data.buffer instanceof SharedArrayBuffer)
})

t.test('bytes that are shared', async (t) => {
  const shared = new SharedBytes(100, () => 4)
  t.equal(shared.set(one, 80), true)
  t.equal(shared.set(two, 30), false)
  t.equal(shared.set(two, 25), true, 'its share')
  t.equal(shared.set(one, 90), false)
  shared.release(one)
  t.equal(shared.set(two, 100), true)
  t.equal(shared.set(two, 10), true, 'less is always possible')
  t.equal(shared.set(one, 90), true)
})

t.test('what comes at once has the same bound, and is kept once', async (t) => {
  const sources = Array.from({ length: 4 }, () => ({}))
  const files = new KeptFiles(100, () => 4)
  const others = sources.map((source) => files.arrival(source, 7n))
  const refused = others.filter((arrival, index) => {
    try {
      arrival.add(`${index} a`, bytes(25))
      arrival.add(`${index} b`, bytes(25))
      return false
    } catch {
      return true
    }
  })
  t.equal(refused.length, 2, 'beyond their share there is room for two')
  for (const arrival of others) arrival.leave()
  const alike = sources.slice(0, 2).map((source) => files.arrival(source, 7n))
  const contents = alike.map((arrival) => {
    const data = arrival.add('c', bytes(50))
    arrival.keep()
    return data
  })
  t.equal(contents[0], contents[1])
})

t.test('what sources of one project get alike at once counts once, also if the first one leaves', async (t) => {
  const files = new KeptFiles(100, () => 5)
  const alike = Array.from({ length: 5 }, () => files.arrival({}, 7n))
  const contents = alike.map((arrival) => [arrival.add('a', bytes(45)), arrival.add('b', bytes(45))])
  t.equal(new Set(contents.flat()).size, 2)
  alike[0]?.leave()
  t.throws(
    () => files.arrival({}, 8n).add('c', bytes(30)),
    { message: /more than 100 bytes/ },
    'the others get it still',
  )
  alike[1]?.keep()
  for (const arrival of alike) arrival.leave()
  t.throws(() => files.arrival({}, 8n).add('c', bytes(30)), { message: /more than 100 bytes/ }, 'one has kept it')
})

t.test('what nobody keeps is gone', async (t) => {
  const files = new KeptFiles(100, () => 5)
  for (let round = 0; round < 3; round++) {
    const arrival = files.arrival(one, 7n)
    arrival.add('a', bytes(90))
    arrival.add('', bytes(10))
    arrival.leave()
  }
  t.equal(bring(files, two, { z: 100 }).length, 1)
})

t.test('what a source has, and goes on having, counts', async (t) => {
  const files = new KeptFiles(100, () => 4)
  bring(files, one, { a: 60 })
  t.throws(() => bring(files, one, { a: 60, b: 50 }), { message: /more than 100 bytes/ })
  bring(files, one, { a: 60, b: 40 })
  bring(files, one, { b: 40, c: 60 })
})
