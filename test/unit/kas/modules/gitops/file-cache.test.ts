import t from 'tap'
import { FileCache } from '../../../../../src/kas/modules/gitops/file-cache.ts'
import type { BlobLimits, TreeFile } from '../../../../../src/kas/repositories/tree.ts'

const limits = { maxFileBytes: 1000, maxTotalBytes: 2000 }
const file = (blob: string, path = blob): TreeFile => ({ path, blob })

/** Reads files of 600 bytes, and keeps what was asked for. */
function reader(bytes = 600) {
  const reads: { blobs: string[]; limits: BlobLimits }[] = []
  const read = async (files: readonly TreeFile[], limits: BlobLimits) => {
    reads.push({ blobs: files.map(({ blob }) => blob), limits })
    return files.map(({ blob }) => Buffer.alloc(bytes, blob))
  }
  return { reads, read }
}

t.test('what is held is not read again, whatever its path', async (t) => {
  const cache = new FileCache({ maxBytes: 10_000 })
  const { reads, read } = reader()
  await cache.contents([file('a'), file('b')], limits, read)
  const moved = file('b', 'moved')
  const contents = await cache.contents([file('c'), moved], limits, read)
  t.strictSame(contents.get(moved), Buffer.alloc(600, 'b'))
  t.equal(contents.size, 2)
  t.strictSame(reads, [
    { blobs: ['a', 'b'], limits },
    { blobs: ['c'], limits: { maxFileBytes: 1000, maxTotalBytes: 1400 } },
  ])
  await cache.contents([moved], limits, () => Promise.reject(new Error('it is held')))
})

t.test('bounds of a round hold for what is held as well', async (t) => {
  const cache = new FileCache({ maxBytes: 10_000 })
  const { read } = reader()
  const files = ['a', 'b', 'c', 'd'].map((blob) => file(blob))
  for (const each of files) await cache.contents([each], limits, read)
  await t.rejects(cache.contents(files, limits, read), { code: 'MANIFESTS_REFUSED', message: /more than 2000 bytes/ })
  const low = { ...limits, maxFileBytes: 500 }
  await t.rejects(cache.contents(files, low, read), { code: 'MANIFESTS_REFUSED', message: /600 bytes, more than 500/ })
})

t.test('the longest unused makes room; one that is too large is not held', async (t) => {
  const cache = new FileCache({ maxBytes: 2500 })
  const { reads, read } = reader()
  for (const blob of ['a', 'b', 'a', 'c', 'a', 'b']) await cache.contents([file(blob)], limits, read)
  t.strictSame(
    reads.map(({ blobs }) => blobs[0]),
    ['a', 'b', 'c', 'b'],
  )
  t.equal(cache.bytes, 2 * (600 + 512))
  const large = reader(3000)
  const wide = { maxFileBytes: 5000, maxTotalBytes: 5000 }
  await cache.contents([file('large')], wide, large.read)
  t.equal(cache.bytes, 2 * (600 + 512))
})

t.test('what could not be read is not held', async (t) => {
  const cache = new FileCache({ maxBytes: 2500 })
  await t.rejects(
    cache.contents([file('a')], limits, () => Promise.reject(new Error('gone'))),
    { message: 'gone' },
  )
  t.equal(cache.bytes, 0)
})
