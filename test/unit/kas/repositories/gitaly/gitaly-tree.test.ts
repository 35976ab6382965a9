import { create } from '@bufbuild/protobuf'
import t from 'tap'
import type { GitalyCalls } from '../../../../../src/kas/repositories/gitaly/gitaly-calls.ts'
import { GitalyTree } from '../../../../../src/kas/repositories/gitaly/gitaly-tree.ts'
import type { CommitId } from '../../../../../src/kas/repositories/repositories.ts'
import type { KasError } from '../../../../../src/lib/errors.ts'
import {
  GetTreeEntriesResponseSchema,
  RepositorySchema,
  TreeEntry_EntryType,
} from '../../../../../src/proto/gen/gitaly_pb.ts'

const { BLOB, TREE, COMMIT } = TreeEntry_EntryType
const oid = 'a'.repeat(40)
const kinds = {
  file: { type: BLOB, mode: 0o100644, oid },
  link: { type: BLOB, mode: 0o120000, oid },
  folder: { type: TREE, mode: 0o040000, oid },
  submodule: { type: COMMIT, mode: 0o160000, oid },
}

/** How many files there are of a Gitaly that lists entries of one kind without end, or so many. */
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
  const tree = new GitalyTree({ calls, assurePresent: async () => undefined })
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
