import { create, fromBinary, type MessageInitShape, toBinary } from '@bufbuild/protobuf'
import t from 'tap'
import { FileCache } from '../../../../../src/kas/modules/gitops/file-cache.ts'
import { FollowedCommits, isLasting } from '../../../../../src/kas/modules/gitops/followed-commits.ts'
import {
  type ObjectsToSynchronizeOptions,
  objectsToSynchronize,
} from '../../../../../src/kas/modules/gitops/objects-to-synchronize.ts'
import type { PushEvent } from '../../../../../src/kas/repositories/local-pushes.ts'
import type { CommitId, Reading } from '../../../../../src/kas/repositories/repositories.ts'
import type { TreeLink } from '../../../../../src/kas/repositories/tree.ts'
import { KasError } from '../../../../../src/lib/errors.ts'
import { abortable } from '../../../../../src/lib/signals.ts'
import { noTracer } from '../../../../../src/lib/tracing/tracer.ts'
import {
  ObjectsToSynchronizeRequestSchema,
  ObjectsToSynchronizeResponseSchema,
} from '../../../../../src/proto/gen/gitops_pb.ts'
import { capturedLog } from '../../../../support/captured-log.ts'
import { FakeAgentCall } from '../../../../support/fake-agent-call.ts'
import { ManualClock } from '../../../../support/manual-clock.ts'

const [one, two] = ['1'.repeat(40), '2'.repeat(40)] as CommitId[] as [CommitId, CommitId]
const blob = 'ab'.repeat(20)
const project = { id: 9n, path: 'apps/web' }
const paths = [{ path: { case: 'glob' as const, value: '**' } }]

type RequestInit = MessageInitShape<typeof ObjectsToSynchronizeRequestSchema>

/** Opens one stream for a repository. The test moves its branch. */
function start(
  request: RequestInit = {},
  options: Partial<ObjectsToSynchronizeOptions> = {},
  cache = new FileCache({ maxBytes: 1 << 20, maxBytesOfProject: 1 << 20 }),
  unknown = Buffer.alloc(0),
) {
  const clock = new ManualClock()
  const moved = new Set<() => void>()
  const followed = new Set<() => Reading>()
  const commits = new FollowedCommits(clock)
  const pushed = new Set<(event: PushEvent) => void>()
  const state = {
    head: undefined as CommitId | undefined | KasError,
    readable: project as typeof project | undefined | KasError,
    content: 'a: 1',
    reads: [] as Reading[],
    listing: Promise.resolve(),
    links: [] as TreeLink[],
    turn: Promise.resolve(),
    sent: 0,
    blobReads: 0,
    looks: 0,
    turns: 0,
    isContended: false,
    polled: { commit: undefined } as { commit: CommitId | undefined; branch?: string },
    /** time at which `head` was found; undefined: now */
    seenAt: undefined as number | undefined,
    /** called by each poll; may move the branch */
    onRefresh: () => {},
    refreshes: 0,
  }
  const orThrow = <T>(value: T | KasError) => {
    if (value instanceof KasError) throw value
    return value
  }
  const keep = <T>(set: Set<T>, each: T) => {
    set.add(each)
    return () => void set.delete(each)
  }
  const serve = objectsToSynchronize(
    {
      directory: {
        readableProject: async () => {
          state.looks += 1
          return orThrow(state.readable)
        },
      },
      repositories: {
        head: async (of) => {
          state.reads.push(of)
          return orThrow(state.head)
        },
        seenAt: () => state.seenAt ?? clock.now(),
        lastPoll: () => ({ ...state.polled, at: clock.now() }),
        pollAndReport: async () => {
          state.refreshes += 1
          state.onRefresh()
        },
        onMove: (_, listener, following) => {
          const leave = keep(moved, listener)
          return () => {
            leave()
            following?.released?.()
          }
        },
        files: async (_, __, ___, signal) => {
          await abortable(state.listing, signal)
          return Object.assign([{ path: 'a.yaml', blob }], { links: state.links })
        },
        blobs: async (_, __, files) => {
          state.blobReads += 1
          return files.map(({ path }) => Buffer.from(path.startsWith('link') ? '../a.yaml' : state.content))
        },
      },
      pushes: { onPush: (listener) => keep(pushed, listener) },
      refs: { follow: (of) => keep(followed, () => of) },
      commits,
      turns: {
        get isContended() {
          return state.isContended
        },
        take: async () => {
          state.turns += 1
          await state.turn
          return () => void state.turns--
        },
      },
      cache,
      sent: () => state.sent++,
      tracer: noTracer,
      clock,
      log: capturedLog().log,
    },
    { pollMs: 1000, maxPaths: 2, maxFiles: 3, maxFileBytes: 1 << 20, maxTotalBytes: 1 << 20, ...options },
  )
  const message = create(ObjectsToSynchronizeRequestSchema, { projectId: 'apps/web', paths, ...request })
  const bytes = Buffer.concat([toBinary(ObjectsToSynchronizeRequestSchema, message), unknown])
  const call = new FakeAgentCall({ messages: [bytes] })
  const ended = call.servedBy(serve)
  const answers = () => call.sent.map((bytes) => fromBinary(ObjectsToSynchronizeResponseSchema, bytes).message)
  const settle = async () => {
    for (let i = 0; i < 50; i++) await Promise.resolve()
    await new Promise(setImmediate)
  }
  const move = async (head: CommitId | KasError | undefined) => {
    state.head = head
    for (const wake of moved) wake()
    await settle()
  }
  return { call, ended, answers, settle, move, state, clock, moved, followed, pushed, commits }
}

t.test('an empty repository waits; the first commit is a round, with which the stream ends', async (t) => {
  const { ended, answers, settle, move, state, clock, moved, followed, pushed, call } = start()
  await settle()
  t.equal(call.sentMetadata.length, 1)
  t.strictSame(answers(), [])
  t.strictSame(state.reads[0], { id: call.agent.id, project, ref: undefined })
  t.equal(followed.size, 1)
  for (const push of pushed) push({ projectId: 9n, projectPath: 'apps/web', id: 1n })
  for (const push of pushed) push({ projectId: 1n, projectPath: 'other', id: 2n })
  clock.advance(250)
  await move(one)
  t.equal(await ended, 'OK')
  t.match(answers(), [
    { case: 'header', value: { commitId: one, projectId: 9n, ageMs: 250, traceparent: '' } },
    { case: 'object', value: { source: 'a.yaml', data: Buffer.from('a: 1'), blob: Buffer.from(blob, 'hex') } },
    { case: 'trailer' },
  ])
  t.strictSame(
    [moved.size, followed.size, pushed.size, call.directoryListeners, state.turns, state.sent],
    [0, 0, 0, 0, 0, 1],
  )
})

t.test('a commit is sent though the push before it was long ago, or the clock was set back', async (t) => {
  for (const change of ['freeze', 'putBack'] as const) {
    const { ended, answers, settle, move, clock, pushed } = start()
    await settle()
    for (const push of pushed) push({ projectId: 9n, projectPath: 'apps/web', id: 1n })
    clock[change](60 * 24 * 3600_000)
    await move(one)
    t.equal(await ended, 'OK')
    const ageMs = change === 'freeze' ? 2 ** 32 - 1 : 0
    t.match(answers()[0], { case: 'header', value: { commitId: one, ageMs } })
  }
})

t.test('an agent that has a commit is told that the repository has no ref any more', async (t) => {
  for (const ref of [{ case: 'tag' as const, value: 'v1' }, undefined]) {
    const { ended, settle, move } = start({ commitId: one, ...(ref && { ref: { ref } }) })
    await settle()
    await move(one)
    await move(undefined)
    t.match(await ended, { spec: { code: 'REF_NOT_FOUND', ref: ref ? 'refs/tags/v1' : 'HEAD' } })
  }
})

t.test('a link within the commit comes as the file that it leads to; others are named', async (t) => {
  const { ended, answers, settle, move, state } = start({ knownBlob: [] })
  state.links = ['links/in.yaml', 'link-out.yaml'].map((path) => ({ path, blob: path, isSubmodule: false }))
  await settle()
  await move(one)
  await ended
  const [header, ...rest] = answers()
  t.match(header, {
    case: 'header',
    value: { leftOut: ['link-out.yaml is a link to ../a.yaml, which is outside of the repository'] },
  })
  const sent = rest.flatMap(({ case: is, value }) =>
    is === 'object' ? [[value.source, Buffer.from(value.data).toString()]] : [],
  )
  t.strictSame(sent, [
    ['a.yaml', 'a: 1'],
    ['links/in.yaml', 'a: 1'],
  ])
})

t.test('the commit that the agent has is no news, a later one is', async (t) => {
  const { ended, answers, settle, move, state } = start({ commitId: one })
  await move(one)
  await settle()
  t.strictSame(answers(), [])
  await move(two)
  t.equal(await ended, 'OK')
  t.match(answers()[0], { value: { commitId: two } })
  t.equal(state.sent, 1)
})

t.test('the default branch comes with its commit; where only its name changes, the commit comes again', async (t) => {
  const cases: [string, RequestInit, string | undefined, string | undefined][] = [
    ['the same branch', { knownBranch: 'main' }, 'main', undefined],
    ['renamed', { knownBranch: 'main' }, 'trunk', 'trunk'],
    ['an agent that does not know it', {}, 'trunk', undefined],
    ['a server that does not say it', { knownBranch: 'main' }, undefined, undefined],
    ['a longer name than is sent', { knownBranch: 'b'.repeat(1000) }, 'b'.repeat(1001), undefined],
    ['a ref', { knownBranch: 'main', ref: { ref: { case: 'branch', value: 'trunk' } } }, 'trunk', undefined],
  ]
  for (const [name, request, branch, sent] of cases) {
    const { call, answers, settle, move, state, ended } = start({ commitId: one, ...request })
    state.polled = { commit: one, ...(branch !== undefined && { branch }) }
    await move(one)
    await settle()
    t.strictSame(answers().map(({ case: is, value }) => (is === 'header' ? value.branch : undefined))[0], sent, name)
    call.cut()
    await ended
  }
  const later = start({ knownBranch: 'main' })
  later.state.polled = { commit: two, branch: 'trunk' }
  await later.settle()
  await later.move(one)
  t.match(later.answers()[0], { value: { commitId: one, branch: '' } }, 'what another poll has found is not named')
})

t.test('what was seen before the stream began is seen again: it may be older than what the agent has', async (t) => {
  const begin = (commitId: string, found: CommitId) => {
    const stream = start({ commitId })
    stream.state.head = one
    stream.state.seenAt = stream.clock.now() - 1
    stream.state.onRefresh = () => {
      stream.state.head = found
      stream.state.seenAt = undefined
    }
    return stream
  }
  const behind = begin(two, two)
  await behind.settle()
  t.strictSame([behind.answers(), behind.state.refreshes], [[], 1])
  const forced = begin(two, one)
  t.equal(await forced.ended, 'OK')
  t.match(forced.answers()[0], { value: { commitId: one } }, 'the branch was moved back')
  const first = begin('', two)
  t.equal(await first.ended, 'OK')
  t.equal(first.state.refreshes, 0, 'an agent that has nothing takes what is known')
})

t.test('refs by their kinds; what can be none is not found', async (t) => {
  for (const [ref, name] of [
    [{ case: 'branch', value: 'feature/ü' }, 'refs/heads/feature/ü'],
    [{ case: 'tag', value: 'v1.0' }, 'refs/tags/v1.0'],
    [{ case: 'commit', value: one }, one],
    [{ case: 'branch', value: '' }, undefined],
  ] as const) {
    const { ended, settle, move, state } = start({ ref: { ref } })
    await settle()
    t.equal(state.reads[0]?.ref, name)
    await move(one)
    t.equal(await ended, 'OK')
  }
  const malformed = ['a b', '../x', 'a..b', '-x', 'x/', 'a\n', 'x*', 'a//b', '/a', '.a', 'a.', 'a@{1}', 'x'.repeat(251)]
  for (const value of malformed) {
    const { ended } = start({ ref: { ref: { case: 'branch', value } } })
    t.match(await ended, { code: 'REF_NOT_FOUND' }, value)
  }
  const { ended } = start({ ref: { ref: { case: 'commit', value: 'abc' } } })
  t.match(await ended, { code: 'REF_NOT_FOUND' })
})

t.test('blobs that the agent has come without data; large files in pieces; empty ones too', async (t) => {
  const known = start({ knownBlob: [Buffer.from(blob, 'hex')] })
  await known.settle()
  await known.move(one)
  t.match(known.answers()[1], { value: { source: 'a.yaml', known: true, data: Buffer.alloc(0) } })
  const many = start({ knownBlob: [...Array.from({ length: 3 }, () => Buffer.alloc(20)), Buffer.from(blob, 'hex')] })
  await many.settle()
  await many.move(one)
  t.match(many.answers()[1], { value: { known: false, data: Buffer.from('a: 1') } }, 'more than a set has: sent again')
  const large = start()
  large.state.content = 'x'.repeat(300_000)
  await large.settle()
  await large.move(one)
  const pieces = large.answers().slice(1, -1)
  t.strictSame(
    pieces.map((each) => (each.case === 'object' ? [each.value.data.length, each.value.blob.length] : [])),
    [
      [131_072, 20],
      [131_072, 0],
      [37_856, 0],
    ],
  )
  const empty = start()
  empty.state.content = ''
  await empty.settle()
  await empty.move(one)
  t.match(empty.answers()[1], { value: { source: 'a.yaml', data: Buffer.alloc(0), known: false } })
})

t.test('files that another agent was sent are not read again; who may not read the project gets none', async (t) => {
  const cache = new FileCache({ maxBytes: 1 << 20, maxBytesOfProject: 1 << 20 })
  const first = start({}, {}, cache)
  await first.settle()
  await first.move(one)
  t.equal(await first.ended, 'OK')
  const second = start({}, {}, cache)
  second.state.content = 'is not read'
  await second.settle()
  await second.move(one)
  t.equal(await second.ended, 'OK')
  t.match(second.answers()[1], { value: { source: 'a.yaml', data: Buffer.from('a: 1') } })
  t.strictSame([first.state.blobReads, second.state.blobReads], [1, 0])
  const stranger = start({}, {}, cache)
  stranger.state.readable = undefined
  t.match(await stranger.ended, { code: 'PROJECT_NOT_READABLE' })
  t.strictSame(stranger.answers(), [])
})

t.test('refusals end the stream; what may pass is tried again, less and less often', async (t) => {
  const ends = {
    PROJECT_NOT_READABLE: { readable: undefined },
    REF_NOT_FOUND: { head: new KasError({ code: 'REF_NOT_FOUND', ref: 'main' }) },
    UNAUTHENTICATED: { readable: new KasError({ code: 'UNAUTHENTICATED' }) },
    REPOSITORY_FAILED: { head: new KasError({ code: 'REPOSITORY_FAILED', detail: 'too large', isRefused: true }) },
  }
  for (const [code, change] of Object.entries(ends)) {
    const { ended, state } = start()
    Object.assign(state, change)
    t.match(await ended, { code }, code)
  }
  for (const change of [
    { readable: new KasError({ code: 'DIRECTORY_UNAVAILABLE' }) },
    { head: new KasError({ code: 'REPOSITORY_FAILED', detail: 'x' }) },
  ]) {
    const { ended, state, clock, settle, move } = start()
    Object.assign(state, change)
    await settle()
    for (const ms of [10_000, 20_000, 40_000, 80_000, 160_000, 300_000, 300_000]) {
      const before = state.looks
      clock.advance(ms - 1)
      await settle()
      t.equal(state.looks, before, `not before ${ms} ms`)
      clock.advance(1)
      await settle()
      t.equal(state.looks, before + 1)
    }
    Object.assign(state, { readable: project, head: undefined })
    clock.advance(300_000)
    await settle()
    await move(one)
    t.equal(await ended, 'OK')
  }
})

t.test('the token is asked about before each look, at the latest after the poll period', async (t) => {
  const { ended, state, call, clock, settle } = start()
  await settle()
  const before = state.looks
  clock.advance(1000)
  await settle()
  t.equal(state.looks, before + 1)
  call.invalid = new KasError({ code: 'UNAUTHENTICATED' })
  call.directoryChanged()
  t.match(await ended, { code: 'UNAUTHENTICATED' })
  t.equal(state.looks, before + 1)
})

t.test('a connection that retires ends it with OK, but not in the middle of a round', async (t) => {
  const waiting = start()
  await waiting.settle()
  waiting.call.retire()
  t.equal(await waiting.ended, 'OK')
  const sending = start()
  await sending.settle()
  const go = sending.call.stall()
  await sending.move(one)
  sending.call.retire()
  await sending.settle()
  t.equal(sending.answers().length, 1)
  go()
  t.equal(await sending.ended, 'OK')
  t.equal(sending.answers().length, 3)
})

t.test('an agent that does not take its round frees its turn', async (t) => {
  const { ended, state, call, clock, settle, move } = start({}, { maxStallMs: 5000 })
  await settle()
  call.stall()
  await move(one)
  t.equal(state.turns, 1)
  clock.advance(5000)
  t.match(await ended, { code: 'DEADLINE_EXCEEDED' })
  t.equal(state.turns, 0)
})

t.test('an agent that takes its round slowly may, one that takes a little now and then may not', async (t) => {
  const take = async (ms: number, isContended = false) => {
    const stream = start({}, { maxStallMs: 5000, minBytesPerSecond: 65_536, minContendedBytesPerSecond: 131_072 })
    stream.state.isContended = isContended
    stream.state.content = 'x'.repeat(12 * 131_072)
    await stream.settle()
    let go = stream.call.stall()
    await stream.move(one)
    for (let sent = 1; stream.state.turns > 0 && sent < 20; sent++) {
      stream.clock.advance(ms)
      go()
      go = stream.call.stall()
      await stream.settle()
    }
    return { ended: await stream.ended, sent: stream.answers().length }
  }
  t.match(await take(2000), { ended: 'OK', sent: 14 })
  const little = await take(4000)
  t.match(little.ended, { code: 'DEADLINE_EXCEEDED' })
  t.ok(little.sent < 5, 'soon, although it never paused for long')
  t.match(await take(1000, true), { ended: 'OK', sent: 14 })
  t.match(await take(2000, true), { ended: { code: 'DEADLINE_EXCEEDED' } }, 'others wait for its turn')
})

t.test('files that take too long to read free the turn, and are tried again', async (t) => {
  const { ended, state, clock, settle, move } = start({}, { maxReadMs: 5000, pollMs: 100_000 })
  await settle()
  state.listing = new Promise(() => undefined)
  await move(one)
  t.equal(state.turns, 1)
  clock.advance(5000)
  await settle()
  t.equal(state.turns, 0)
  state.listing = Promise.resolve()
  clock.advance(10_000)
  t.equal(await ended, 'OK')
})

t.test('the right is asked for again when the turn has come', async (t) => {
  const { promise, resolve } = Promise.withResolvers<void>()
  const begin = async () => {
    const stream = start()
    stream.state.turn = promise
    await stream.settle()
    await stream.move(one)
    t.equal(stream.state.turns, 1)
    return stream
  }
  const [void_, lost, moved] = [await begin(), await begin(), await begin()]
  void_.call.invalid = new KasError({ code: 'UNAUTHENTICATED' })
  lost.state.readable = undefined
  moved.state.readable = { id: 10n, path: 'apps/web' }
  resolve()
  t.match(await void_.ended, { code: 'UNAUTHENTICATED' })
  t.match(await lost.ended, { code: 'PROJECT_NOT_READABLE' })
  await moved.settle()
  t.strictSame(moved.answers(), [])
  moved.clock.advance(1000)
  t.equal(await moved.ended, 'OK')
  t.match(moved.answers()[0], { value: { projectId: 10n } })
  t.strictSame(
    [void_, lost, moved].map(({ state }) => state.turns),
    [0, 0, 0],
  )
})

t.test('requests that are none', async (t) => {
  for (const [request, says] of [
    [{ projectId: '' }, 'project_id is required'],
    [{ projectId: 'x'.repeat(1025) }, 'project_id is too long'],
    [{ paths: [] }, 'paths are required'],
    [{ paths: [...paths, ...paths, ...paths] }, /maximum number of GitOps paths .* is 2, but 3/],
  ] as const) {
    t.match(await start(request as RequestInit).ended, { code: 'INVALID_MESSAGE', message: says })
  }
})

t.test('fields that nobody knows: a few are of a later version, many are refused before any is built', async (t) => {
  const fields = (count: number) => Buffer.alloc(3 * count, Buffer.from([0xf8, 0x7f, 1])) // field number 2047, a varint
  const few = start({}, {}, undefined, fields(98))
  await few.move(one)
  t.equal(await few.ended, 'OK')
  const many = await start({}, {}, undefined, Buffer.concat([fields(100), Buffer.from([0x07])])).ended
  t.match(
    many,
    { code: 'INVALID_MESSAGE', message: /more than 100 fields beside paths and known blobs/ },
    'read no further',
  )
  const cut = await start({}, {}, undefined, Buffer.from([0x07])).ended
  t.match(cut, { code: 'INVALID_MESSAGE', message: /malformed/ })
})

t.test('the agent pays for a round: for files that are listed, compared, and sent', async (t) => {
  const { call, ended, move } = start()
  await move(one)
  await ended
  const small = call.spent
  t.ok(small > 1 / 50 && small < 1, `${small} units`)
  const large = start()
  large.state.content = 'x'.repeat(64 * 1024)
  await large.move(one)
  await large.ended
  t.ok(Math.abs(large.call.spent - small - 4) < 0.01, `${large.call.spent - small} units more for 64 KiB`)
})

t.test('an agent that owes for rounds before has no turn until it has paid', async (t) => {
  const { call, ended, move, settle, state, answers } = start()
  const paid = Promise.withResolvers<void>()
  let owes = true
  call.spend = (units) => (units === 0 && owes ? paid.promise : undefined)
  await move(one)
  t.equal(state.turns, 0, 'it was given back')
  t.strictSame(answers(), [])
  owes = false
  paid.resolve()
  await settle()
  t.equal(await ended, 'OK')
  t.equal(state.turns, 0)
})

t.test('what the agent has, or is to have, and what is wrong, is known once it has lasted', async (t) => {
  const branch = { ref: { ref: { case: 'branch' as const, value: 'main' } } }
  const { call, ended, settle, move, state, clock, commits } = start({ ...branch, commitId: one })
  const told = () => commits.of(call.agent.id).filter(isLasting)
  const at = { project: 'apps/web', ref: 'branch main' }
  await move(one)
  await settle()
  t.strictSame(told(), [])
  clock.advance(60_000)
  t.match(told(), [{ ...at, commit: one, problem: '', ageMs: 60_000 }])

  await move(new KasError({ code: 'REPOSITORY_FAILED', detail: 'away' }))
  clock.advance(7_999)
  t.strictSame(told(), [])
  clock.advance(1)
  t.match(told(), [{ ...at, commit: one, problem: /away/, ageMs: 8_000 }])
  await move(one)
  t.strictSame(told(), [])

  const turn = Promise.withResolvers<void>()
  state.turn = turn.promise
  await move(two)
  clock.advance(20_000)
  t.match(told(), [{ ...at, commit: two, problem: '', ageMs: 20_000 }])
  turn.resolve()
  await ended
  t.match(told(), [{ commit: two, ended: true }], 'it was sent, and nobody knows whether it has come')
  commits.follow(call.agent.id, { project: 'apps/web', ref: 'refs/heads/other', commit: two }).end(false)
  t.equal(told().length, 1)
  commits.follow(call.agent.id, { project: 'apps/web', ref: 'refs/heads/main', commit: two })
  t.strictSame(told(), [])
  t.match(commits.of(call.agent.id), [{ commit: two, ended: false, ageMs: 0 }], 'a peer is told that it goes on here')
  clock.advance(8_000)
  t.match(told(), [{ commit: two }], 'it has come, and its row is to say so')
})

t.test('an agent that was sent a commit and asks for nothing more is forgotten', async (t) => {
  const { call, ended, move, clock, commits } = start({ commitId: one })
  await move(two)
  await ended
  clock.advance(119_999)
  t.match(commits.of(call.agent.id), [{ ref: '', commit: two, ageMs: 119_999 }])
  clock.advance(1)
  t.strictSame(commits.of(call.agent.id), [])
})

t.test('what an agent was sent is kept within a bound', async (t) => {
  const { call, commits, clock } = start()
  for (let i = 0; i < 1000; i++) {
    commits.follow(call.agent.id, { project: `apps/web-${i}`, ref: undefined, commit: one }).end(true)
  }
  clock.advance(8000)
  t.equal(commits.of(call.agent.id).length, 300)
})
