import { create } from '@bufbuild/protobuf'
import t from 'tap'
import { AgentsFolder } from '../../../../../src/kas/repositories/gitaly/agents-folder.ts'
import type { GitalyCalls } from '../../../../../src/kas/repositories/gitaly/gitaly-calls.ts'
import type { CommitId } from '../../../../../src/kas/repositories/repositories.ts'
import { Counter } from '../../../../../src/lib/counter.ts'
import { KasError } from '../../../../../src/lib/errors.ts'
import {
  GetTreeEntriesResponseSchema,
  RepositorySchema,
  TreeEntry_EntryType,
} from '../../../../../src/proto/gen/gitaly_pb.ts'

const { signal } = new AbortController()
const commit = 'a'.repeat(40) as CommitId
const other = 'b'.repeat(40) as CommitId
const blob = 'c'.repeat(40)
const pathOf = (i: number | string) => `.gitlab/agents/agent-${i}/config.yaml`

/** Starts with a Gitaly that lists `count` regular files and a link. */
function start(count: number, maxKeptBytes = 64 << 20) {
  const state = {
    asked: 0,
    assured: 0,
    failure: undefined as KasError | undefined,
    end: undefined as KasError | undefined,
  }
  async function* call() {
    state.asked++
    if (state.failure) throw state.failure
    const entry = (i: number | string, mode: number) => {
      return { type: TreeEntry_EntryType.BLOB, mode, path: Buffer.from(pathOf(i)), oid: blob }
    }
    for (let i = 0; i < count; i += 1000) {
      const entries = Array.from({ length: Math.min(1000, count - i) }, (_, at) => entry(i + at, 0o100644))
      yield create(GetTreeEntriesResponseSchema, { entries })
    }
    if (count > 0) yield create(GetTreeEntriesResponseSchema, { entries: [entry('link', 0o120000)] })
    if (state.end) throw state.end
  }
  const calls = { repository: create(RepositorySchema), call: call as unknown as GitalyCalls['call'] }
  const kept = new Counter({ max: maxKeptBytes })
  return { state, kept, folder: new AgentsFolder({ calls, kept, assurePresent: async () => void state.assured++ }) }
}

t.test('a commit is listed once, for all who ask', async (t) => {
  const { folder, state } = start(3)
  const all = await Promise.all([0, 1, 7, 'link'].map((i) => folder.entry(commit, pathOf(i), signal)))
  t.same(all, [{ is: 'file', blob }, { is: 'file', blob }, { is: 'absent' }, { is: 'other' }])
  t.equal(await folder.entry(commit, 'deploy/a.yaml', signal), undefined, 'not of the folder')
  t.same([state.asked, state.assured], [1, 0])
  await folder.entry(other, pathOf(0), signal)
  t.equal(state.asked, 2)
})

t.test('an empty folder is believed once the commit is seen to be there', async (t) => {
  const { folder, state } = start(0)
  t.same(await folder.entry(commit, pathOf(0), signal), { is: 'absent' })
  await folder.entry(commit, pathOf(1), signal)
  t.same([state.asked, state.assured], [1, 1])
})

t.test('who leaves ends nothing for the others', async (t) => {
  const { folder } = start(3)
  const left = new AbortController()
  const leaving = folder.entry(commit, pathOf(0), left.signal)
  const staying = folder.entry(commit, pathOf(1), signal)
  left.abort(new Error('left'))
  await t.rejects(leaving, { message: 'left' })
  t.same(await staying, { is: 'file', blob })
})

t.test('what cannot be listed, or in part alone, is asked for by itself', async (t) => {
  const { folder, state } = start(3)
  state.failure = new KasError({ code: 'STATUS', grpc: 14, message: 'away' })
  t.equal(await folder.entry(commit, pathOf(0), signal), undefined)
  state.failure = undefined
  t.same(await folder.entry(other, pathOf(0), signal), { is: 'file', blob })
  const broken = start(3)
  broken.state.end = new KasError({ code: 'STATUS', grpc: 5, message: 'the repository is gone' })
  t.equal(await broken.folder.entry(commit, pathOf('none'), signal), undefined, 'nobody says that it is absent')
})

t.test('too much to be listed: each file is asked for by itself', async (t) => {
  const { folder } = start(50_001)
  t.equal(await folder.entry(commit, pathOf(0), signal), undefined)
  t.equal(await folder.entry(commit, pathOf('none'), signal), undefined)
})

t.test('what is kept has a bound, and the one used last stays', (t) => {
  const { folder, kept } = start(0)
  const kib256 = Buffer.alloc(256 * 1024)
  for (const name of ['a', 'b', 'c', 'd']) folder.keep(name, kib256)
  folder.content('a')
  folder.keep('e', kib256)
  const has = (name: string) => folder.content(name) !== undefined
  t.same(['a', 'b', 'c', 'd', 'e'].map(has), [true, false, true, true, true])
  folder.keep('large', Buffer.alloc(2 << 20))
  t.notOk(has('large'))
  folder.keep('e', kib256) // for the second time
  t.ok(has('a'))
  t.equal(kept.total, 1 << 20)
  folder.clear()
  t.equal(kept.total, 0)
  t.end()
})

t.test('all repositories share what may be kept', async (t) => {
  const { folder, kept } = start(10, 2000)
  t.same(await folder.entry(commit, pathOf(0), signal), undefined, 'a listing that has no room is none')
  t.equal(kept.total, 0)
  folder.keep('a', Buffer.alloc(1500))
  folder.keep('b', Buffer.alloc(1500))
  t.same([folder.content('a')?.length, folder.content('b')], [1500, undefined])
  const small = start(3, 2000)
  t.same(await small.folder.entry(commit, pathOf(0), signal), { is: 'file', blob })
  const first = small.kept.total
  t.ok(first > 0)
  await small.folder.entry(other, pathOf(0), signal)
  t.equal(small.kept.total, first, 'of the newest commit alone')
  small.folder.clear()
  t.equal(small.kept.total, 0)
  // two commits in turn, before either is listed
  await Promise.all([commit, other, commit].map((each) => small.folder.entry(each, pathOf(0), signal)))
  t.equal(small.kept.total, first)
  small.folder.clear()
  t.equal(small.kept.total, 0)
})
