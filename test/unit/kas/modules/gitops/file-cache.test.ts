import t from 'tap'
import { cacheBounds, FileCache } from '../../../../../src/kas/modules/gitops/file-cache.ts'
import type { BlobLimits, TreeFile } from '../../../../../src/kas/repositories/tree.ts'

const limits = { maxFileBytes: 1000, maxTotalBytes: 2000 }
const projectId = 1n
const file = (blob: string, path = blob): TreeFile => ({ path, blob })

/** Reads files of `bytes` bytes, and records each read. */
function reader(bytes = 600) {
  const reads: { blobs: string[]; limits: BlobLimits }[] = []
  const read = async (files: readonly TreeFile[], limits: BlobLimits) => {
    reads.push({ blobs: files.map(({ blob }) => blob), limits })
    return files.map(({ blob }) => Buffer.alloc(bytes, blob))
  }
  return { reads, read }
}

t.test('what is held is not read again, whatever its path', async (t) => {
  const cache = new FileCache({ maxBytes: 10_000, maxBytesOfProject: 10_000 })
  const { reads, read } = reader()
  await cache.contents([file('a'), file('b')], { projectId, limits, read })
  const moved = file('b', 'moved')
  const contents = await cache.contents([file('c'), moved], { projectId, limits, read })
  t.strictSame(contents.get(moved), Buffer.alloc(600, 'b'))
  t.equal(contents.size, 2)
  t.strictSame(reads, [
    { blobs: ['a', 'b'], limits },
    { blobs: ['c'], limits: { maxFileBytes: 1000, maxTotalBytes: 1400 } },
  ])
  await cache.contents([moved], { projectId, limits, read: () => Promise.reject(new Error('it is held')) })
})

t.test('bounds of a round hold for what is held as well', async (t) => {
  const cache = new FileCache({ maxBytes: 10_000, maxBytesOfProject: 10_000 })
  const { read } = reader()
  const files = ['a', 'b', 'c', 'd'].map((blob) => file(blob))
  for (const each of files) await cache.contents([each], { projectId, limits, read })
  await t.rejects(cache.contents(files, { projectId, limits, read }), {
    code: 'MANIFESTS_REFUSED',
    message: /more than 2000 bytes/,
  })
  const low = { ...limits, maxFileBytes: 500 }
  await t.rejects(cache.contents(files, { projectId, limits: low, read }), {
    code: 'MANIFESTS_REFUSED',
    message: /600 bytes, more than 500/,
  })
})

t.test('the longest unused makes room; one that is too large is not held', async (t) => {
  const cache = new FileCache({ maxBytes: 2500, maxBytesOfProject: 2500 })
  const { reads, read } = reader()
  for (const blob of ['a', 'b', 'a', 'c', 'a', 'b']) await cache.contents([file(blob)], { projectId, limits, read })
  t.strictSame(
    reads.map(({ blobs }) => blobs[0]),
    ['a', 'b', 'c', 'b'],
  )
  t.equal(cache.bytes, 2 * (600 + 512))
  const large = reader(3000)
  const wide = { maxFileBytes: 5000, maxTotalBytes: 5000 }
  await cache.contents([file('large')], { projectId, limits: wide, read: large.read })
  t.equal(cache.bytes, 2 * (600 + 512))
})

t.test('what could not be read is not held', async (t) => {
  const cache = new FileCache({ maxBytes: 2500, maxBytesOfProject: 2500 })
  await t.rejects(cache.contents([file('a')], { projectId, limits, read: () => Promise.reject(new Error('gone')) }), {
    message: 'gone',
  })
  t.equal(cache.bytes, 0)
})

t.test('what one project has is not held for another', async (t) => {
  const cache = new FileCache({ maxBytes: 10_000, maxBytesOfProject: 10_000 })
  const { reads, read } = reader()
  for (const projectId of [1n, 2n, 1n]) await cache.contents([file('a')], { projectId, limits, read })
  t.equal(reads.length, 2)
})

t.test('a project makes room for itself; where all are full, the one unused longest makes room', async (t) => {
  const size = 600 + 512
  const cache = new FileCache({ maxBytes: 4 * size, maxBytesOfProject: 2 * size })
  const { reads, read } = reader()
  const use = (projectId: bigint, blob: string) => cache.contents([file(blob)], { projectId, limits, read })
  const isHeld = async (projectId: bigint, blob: string) => {
    const before = reads.length
    await use(projectId, blob)
    return reads.length === before
  }
  await use(1n, 'a')
  for (const blob of ['a', 'b', 'c', 'd', 'e']) await use(2n, blob)
  t.equal(cache.bytes, 3 * size)
  t.ok(await isHeld(2n, 'd'))
  t.ok(await isHeld(1n, 'a'))
  for (const blob of ['a', 'b']) await use(3n, blob)
  t.equal(cache.bytes, 4 * size)
  t.ok(await isHeld(1n, 'a'), 'used after those of project 2')
  t.ok(await isHeld(2n, 'd'), 'used after the other one')
})

t.test('what is held keeps nothing else', async (t) => {
  const cache = new FileCache({ maxBytes: 10_000, maxBytesOfProject: 10_000 })
  const slab = Buffer.alloc(8192, 'x')
  const read = async () => [slab.subarray(10, 11)]
  await cache.contents([file('a')], { projectId, limits, read })
  const held = await cache.contents([file('a')], { projectId, limits, read: () => Promise.reject(new Error('held')) })
  const [content] = [...held.values()] as [Uint8Array]
  t.equal(String(content), 'x')
  t.equal(content.buffer.byteLength, 1)
})

t.test('one content may be all that a project holds', async (t) => {
  const cache = new FileCache({ maxBytes: 4000, maxBytesOfProject: 1200 })
  const { reads, read } = reader()
  for (const blob of ['a', 'b', 'b']) await cache.contents([file(blob)], { projectId, limits, read })
  t.equal(cache.bytes, 600 + 512)
  t.equal(reads.length, 2)
})

t.test('of one project the largest round stays whole, and nothing beside it', async (t) => {
  const largest = { keptBytes: 1 << 24, maxFiles: 1000, maxTotalBytes: 2_000_000 }
  const cache = new FileCache(cacheBounds(largest))
  const { reads, read } = reader(largest.maxTotalBytes / largest.maxFiles)
  const limits = { maxFileBytes: largest.maxTotalBytes, maxTotalBytes: largest.maxTotalBytes }
  const round = (name: string) => Array.from({ length: largest.maxFiles }, (_, i) => file(`${name}-${i}`))
  for (let i = 0; i < 2; i++) await cache.contents(round('first'), { projectId, limits, read })
  t.equal(reads.length, 1)
  const { bytes } = cache
  for (const name of ['second', 'third']) await cache.contents(round(name), { projectId, limits, read })
  t.equal(cache.bytes, bytes)
  await cache.contents(round('third'), { projectId, limits, read })
  t.equal(reads.length, 3)
  await cache.contents(round('first'), { projectId: 2n, limits, read })
  t.equal(cache.bytes, 2 * bytes, 'what another project has stays')
})
