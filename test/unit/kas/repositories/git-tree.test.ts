import t from 'tap'
import type { GitFolder } from '../../../../src/kas/repositories/git-folder.ts'
import { GitTree, type TreeMirror } from '../../../../src/kas/repositories/git-tree.ts'
import type { CommitId } from '../../../../src/kas/repositories/repositories.ts'
import type { KasError } from '../../../../src/lib/errors.ts'
import { collectAll } from '../../../../src/lib/v8.ts'

const { signal } = new AbortController()
const commit = 'a'.repeat(40) as CommitId
const [x, y] = ['b'.repeat(40), 'c'.repeat(40)]
const files = [
  { path: 'x', blob: x },
  { path: 'y', blob: y },
]
const whole = `${x} blob 3\nabc\n${y} blob 0\n\n`

/** A mirror whose git prints `text` in pieces of `size` bytes. */
function saying(text: string, size = Math.max(1, text.length)): TreeMirror {
  const folder: Pick<GitFolder, 'pipe'> = {
    async pipe(_argv, _input, { take }) {
      for (let at = 0; at < text.length; at += size) take(Buffer.from(text.slice(at, at + size)))
    },
  }
  return { read: (work, ended) => work(folder as GitFolder, ended), history: async () => new Set() }
}

const read = (text: string, size?: number, limits = { maxFileBytes: 10, maxTotalBytes: 10 }) =>
  new GitTree(saying(text, size)).blobs(commit, files, limits, signal).then(
    (blobs) => blobs.map(String),
    (error: KasError) => error.message,
  )

t.test('what cat-file says, however it is cut', async (t) => {
  for (let size = 1; size <= whole.length; size++) t.strictSame(await read(whole, size), ['abc', ''], `${size} bytes`)
})

t.test('each content has a buffer of its own, however it comes', async (t) => {
  for (const size of [1, 10, whole.length]) {
    const tree = new GitTree(saying(whole, size))
    const contents = await tree.blobs(commit, files, { maxFileBytes: 10, maxTotalBytes: 10 }, signal)
    t.strictSame(
      contents.map(({ buffer }) => buffer.byteLength),
      [3, 0],
      `${size} bytes`,
    )
  }
})

t.test('what is cut, missing or malformed is an error', async (t) => {
  for (let length = 0; length < whole.length; length++) {
    t.match(await read(whole.slice(0, length)), 'Repository: git cat-file: it ends in the middle', `${length} bytes`)
  }
  t.match(await read(`${x} missing\n`), `Repository: git cat-file: ${x} missing`)
  t.match(await read(`${x} tree 3\nabc\n`), 'Repository: git cat-file')
  t.match(await read('x'.repeat(300)), 'Repository: git cat-file: a line is too long')
  t.match(await read(`${whole}${x} blob 3\nabc\n`), 'Repository: git cat-file', 'more than was asked for')
})

t.test('a file that is too large is refused by its head, before it comes', async (t) => {
  t.match(await read(`${x} blob 11\n`), 'x: has 11 bytes, more than 10')
  t.match(await read(`${x} blob 3\nabc\n${y} blob 8\n`), 'y: with the files before it more than 10 bytes')
})

t.test('names with any characters; links, submodules and folders are no files', async (t) => {
  const lines = [
    `100644 blob ${x}\ta\tb\nc`,
    `120000 blob ${x}\tlink`,
    `160000 commit ${x}\tmodule`,
    `100755 blob ${y}\t100644 blob ${x}`,
  ]
  const listed = [...lines, `040000 tree ${x}\tfolder`].map((line) => `${line}\0`).join('')
  for (let size = 1; size <= listed.length; size++) {
    t.strictSame(Array.from(await new GitTree(saying(listed, size)).files(commit, '', signal)), [
      { path: 'a\tb\nc', blob: x },
      { path: `100644 blob ${x}`, blob: y },
    ])
  }
})

/** Returns git's listing of `count` files. */
function listingOf(count: number, pathBytes: number): string {
  const paths = Array.from({ length: count }, (_, i) => String(i).padStart(pathBytes, 'p'))
  return paths.map((path) => `100644 blob ${x}\t${path}\0`).join('')
}

t.test('a listing is kept as bytes: on the heap it takes no more for more files', async (t) => {
  const [count, pathBytes] = [45_000, 30]
  const mirror = saying(listingOf(count, pathBytes), 64 * 1024)
  const memory = () => {
    collectAll()
    collectAll() // counts fall only when a helper thread has freed the buffers that the first collection found
    return process.memoryUsage()
  }
  const kept = [await new GitTree(mirror).files(commit, '', signal)]
  const before = memory()
  for (let more = 0; more < 4; more++) kept.push(await new GitTree(mirror).files(commit, '', signal))
  const after = memory()
  t.strictSame(
    kept.map(({ length }) => length),
    Array(5).fill(count),
  )
  const onHeap = after.heapUsed - before.heapUsed
  t.ok(onHeap < 10 * 4 * count, `${onHeap} bytes on the heap`)
  const outside = after.arrayBuffers - before.arrayBuffers
  t.ok(outside < 1.1 * 4 * count * (pathBytes + x.length + 3), `${outside} bytes outside of the heap`)
})

t.test('a listing is bounded while it comes, in entries of any kind, and in its paths', async (t) => {
  const list = async (text: string, size?: number) => {
    try {
      return (await new GitTree(saying(text, size)).files(commit, 'a', signal)).length
    } catch (error) {
      return (error as KasError).message.replace(/^.*: /, '')
    }
  }
  const entries = (length: number, path: (i: number) => string, head = `100644 blob ${x}`) =>
    Array.from({ length }, (_, i) => `${head}\t${path(i)}\0`).join('')
  t.equal(await list(entries(50_000, String)), 50_000)
  t.equal(await list(entries(50_001, String)), 'more than 50000 files below a')
  for (const head of [`040000 tree ${x}`, `120000 blob ${x}`, `160000 commit ${x}`]) {
    t.equal(await list(entries(100_000, String, head)), 0)
    t.equal(await list(entries(100_001, String, head)), 'more than 100000 files and folders below a')
  }
  const long = (length: number) => entries(1, () => 'x'.repeat(length))
  t.equal(await list(long(4096), 1000), 1)
  t.equal(await list(long(4097)), 'a path of more than 4096 bytes below a')
  t.equal(await list('x'.repeat(100_000), 1000), 'a path of more than 4096 bytes below a', 'before it ends')
  t.equal(await list(entries(2048, () => 'x'.repeat(4096))), 2048)
  t.equal(await list(entries(2049, () => 'x'.repeat(4096))), 'paths of more than 8388608 bytes in all below a')
  t.match(await list('x\0'), 'x')
  t.equal(await list(`100644 blob ${x}\ta`), 'it ends in the middle')
})

t.test('a path that git gives to no file is refused, before anything is kept of it', async (t) => {
  for (const path of ['../x', '../../etc/x', '/etc/x', 'a/../b', 'a/./b', './a', '.', '..', 'a//b', 'a/', '']) {
    const listed = new GitTree(saying(`100644 blob ${x}\t${path}\0`)).files(commit, '', signal)
    const error = await listed.catch((error: KasError) => error)
    t.match(error, { code: 'MANIFESTS_REFUSED' }, path)
    t.ok(String(error).includes(`: the path ${path}, which no file of a repository can have, below the root`), path)
  }
  for (const path of ['..a', 'a../b', 'a/...', '.a', '.git/config', ' ', 'a\nb']) {
    t.strictSame(
      [...(await new GitTree(saying(`100644 blob ${x}\t${path}\0`)).files(commit, '', signal))],
      [{ path, blob: x }],
    )
  }
})
