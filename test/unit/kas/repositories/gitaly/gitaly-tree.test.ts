import { create } from '@bufbuild/protobuf'
import t from 'tap'
import type { GitalyCalls } from '../../../../../src/kas/repositories/gitaly/gitaly-calls.ts'
import { GitalyTree } from '../../../../../src/kas/repositories/gitaly/gitaly-tree.ts'
import type { CommitId } from '../../../../../src/kas/repositories/repositories.ts'
import type { KasError } from '../../../../../src/lib/errors.ts'
import {
  GetBlobsResponseSchema,
  GetTreeEntriesResponseSchema,
  RepositorySchema,
  TreeEntry_EntryType,
} from '../../../../../src/proto/gen/gitaly_pb.ts'

const { BLOB, TREE, COMMIT } = TreeEntry_EntryType
const oid = 'a'.repeat(40)
const agentsFolder = { entry: async () => undefined } // not used by these searches
const kinds = {
  file: { type: BLOB, mode: 0o100644, oid },
  link: { type: BLOB, mode: 0o120000, oid },
  folder: { type: TREE, mode: 0o040000, oid },
  submodule: { type: COMMIT, mode: 0o160000, oid },
}

/** Returns the number of files listed, or the error. Gitaly lists `count` entries of one kind; default: without end. */
async function listed(kind: keyof typeof kinds, pathBytes: number, count = Number.POSITIVE_INFINITY) {
  let messages = 0
  const call = async function* () {
    const entries = Array.from({ length: Math.min(count, 1000) }, () => ({
      ...kinds[kind],
      path: Buffer.alloc(pathBytes, 'x'),
    }))
    for (; messages * 1000 < count; messages++) yield create(GetTreeEntriesResponseSchema, { entries })
  }
  const calls = { repository: create(RepositorySchema), call: call as unknown as GitalyCalls['call'] }
  const tree = new GitalyTree({ calls, agentsFolder, assurePresent: async () => undefined })
  try {
    return (await tree.files(oid as CommitId, 'a', new AbortController().signal)).length
  } catch (error) {
    return `${(error as KasError).message.replace(/^.*: /, '')}, after ${messages + 1} messages`
  }
}

t.test('a listing is bounded while it comes, in entries of any kind, and in its paths', async (t) => {
  t.equal(await listed('file', 9, 50_000), 50_000)
  t.equal(await listed('file', 9), 'more than 50000 files below a, after 51 messages')
  for (const kind of ['link', 'folder', 'submodule'] as const) {
    t.equal(await listed(kind, 9, 100_000), 0)
    t.equal(await listed(kind, 9), 'more than 100000 files and folders below a, after 101 messages')
  }
  t.equal(await listed('file', 4096, 1), 1)
  t.equal(await listed('file', 4097), 'a path of more than 4096 bytes below a, after 1 messages')
  t.equal(await listed('file', 4096), 'paths of more than 8388608 bytes in all below a, after 3 messages')
})

/** Searches a path; Gitaly lists these entries, a hundred a message. */
async function mayHave(path: string, entries: readonly { readonly path: string; readonly mode?: number }[]) {
  let messages = 0
  let asked: { path: Uint8Array; recursive: boolean } | undefined
  const call = async function* (_: unknown, request: { path: Uint8Array; recursive: boolean }) {
    asked = request
    for (let at = 0; at < entries.length; at += 100) {
      messages++
      const some = entries
        .slice(at, at + 100)
        .map((entry) => ({ ...kinds.file, ...entry, path: Buffer.from(entry.path) }))
      yield create(GetTreeEntriesResponseSchema, { entries: some })
    }
  }
  let assured = 0
  const calls = { repository: create(RepositorySchema), call: call as unknown as GitalyCalls['call'] }
  const tree = new GitalyTree({ calls, agentsFolder, assurePresent: async () => void assured++ })
  const may = await tree.mayHave(oid as CommitId, path, new AbortController().signal)
  t.match(asked, { path: Buffer.from('a/b'), recursive: false })
  return { may, messages, assured }
}

t.test('a path is searched in its folder alone, among the first thousand entries', async (t) => {
  const others = Array.from({ length: 50_000 }, (_, i) => ({ path: `a/b/${String(i).padStart(6, '0')}` }))
  const gitops = { path: 'a/b/gitops.yaml' }
  t.strictSame(await mayHave('a/b/gitops.yaml', others), { may: true, messages: 11, assured: 0 }, 'who knows')
  t.strictSame(await mayHave('a/b/gitops.yaml', [gitops, ...others]), { may: true, messages: 1, assured: 0 })
  t.strictSame(await mayHave('a/b/gitops.yaml', others.slice(0, 1000)), { may: false, messages: 10, assured: 0 })
  t.strictSame(await mayHave('a/b/gitops.yaml', []), { may: false, messages: 0, assured: 1 })
  const link = { ...gitops, mode: 0o120000 }
  t.strictSame(await mayHave('a/b/gitops.yaml', [link]), { may: false, messages: 1, assured: 0 }, 'a link is no file')
})

t.test('an object id that is none is no megabytes of memory', async (t) => {
  for (const oid of ['', 'A'.repeat(40), 'a'.repeat(41), 'a'.repeat(1 << 20)]) {
    const call = async function* () {
      yield create(GetTreeEntriesResponseSchema, { entries: [{ ...kinds.file, path: Buffer.from('a/x'), oid }] })
    }
    const calls = { repository: create(RepositorySchema), call: call as unknown as GitalyCalls['call'] }
    const tree = new GitalyTree({ calls, agentsFolder, assurePresent: async () => undefined })
    await t.rejects(tree.files('a'.repeat(40) as CommitId, 'a', new AbortController().signal), {
      code: 'REPOSITORY_FAILED',
      message: /GetTreeEntries: an entry without an object id$/,
    })
  }
})

/** Reads the file `path`. Gitaly reports its size and sends these pieces, one a message. */
async function blobOf(size: number, pieces: readonly string[]) {
  const call = async function* () {
    for (const [i, piece] of pieces.entries()) {
      const first = i === 0 ? { oid, path: Buffer.from('path'), size: BigInt(size) } : {}
      yield create(GetBlobsResponseSchema, { ...first, data: Buffer.from(piece) })
    }
  }
  const calls = { repository: create(RepositorySchema), call: call as unknown as GitalyCalls['call'] }
  const tree = new GitalyTree({ calls, agentsFolder, assurePresent: async () => undefined })
  const limits = { maxFileBytes: 10, maxTotalBytes: 10 }
  try {
    const files = [{ path: 'path', blob: oid }]
    const [content] = await tree.blobs(oid as CommitId, files, limits, new AbortController().signal)
    return { text: String(content), bytes: content?.buffer.byteLength }
  } catch (error) {
    return (error as KasError).message.replace(/^.*: /, '')
  }
}

t.test('a content has the bytes that Gitaly says it has, in a buffer of its own', async (t) => {
  t.strictSame(await blobOf(6, ['abc', '', 'def']), { text: 'abcdef', bytes: 6 })
  t.strictSame(await blobOf(0, ['']), { text: '', bytes: 0 })
  t.equal(await blobOf(6, ['abc', 'de']), 'a file is shorter than it says')
  t.equal(await blobOf(6, ['abc', 'defg']), 'a file is longer than it says')
  t.equal(await blobOf(11, ['']), 'has 11 bytes, more than 10')
  t.equal(await blobOf(-1, ['']), 'path has -1 bytes')
})

t.test('a path that git gives to no file is refused, shown so that it steers no terminal', async (t) => {
  for (const [path, shown] of [
    ['../../etc/\u001b[2J', '../../etc/?[2J'],
    ['/etc/x', '/etc/x'],
    ['a/../../x', 'a/../../x'],
    ['a/.', 'a/.'],
    ['a\0b', 'a?b'],
    ['', ''],
  ] as const) {
    const call = async function* () {
      yield create(GetTreeEntriesResponseSchema, { entries: [{ ...kinds.file, path: Buffer.from(path) }] })
    }
    const calls = { repository: create(RepositorySchema), call: call as unknown as GitalyCalls['call'] }
    const tree = new GitalyTree({ calls, agentsFolder, assurePresent: async () => undefined })
    const error = await tree.files(oid as CommitId, 'a', new AbortController().signal).catch((error) => error)
    t.match(error, { code: 'MANIFESTS_REFUSED' }, path)
    t.ok(error.message.endsWith(`the path ${shown}, which no file of a repository can have, below a`), error.message)
  }
})
