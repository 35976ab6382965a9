import { rename } from 'node:fs/promises'
import { status } from '@grpc/grpc-js'
import t from 'tap'
import type { CommitId } from '../../../src/kas/repositories/repositories.ts'
import { KasError } from '../../../src/lib/errors.ts'
import { eventually } from '../../support/eventually.ts'
import { FreezableFront } from '../../support/freezable-front.ts'
import type { GitalyFault } from '../../support/gitaly/gitaly-double.ts'
import { gitalyAgent as agent, startGitalySide } from '../../support/gitaly/gitaly-side.ts'
import { type GitalyVersion, gitalyVersions } from '../../support/gitaly/gitaly-versions.ts'
import { failure } from './repositories-suite.ts'

/**
 * A Gitaly that is away, slow, wrong or answers something unexpected: kas never returns an empty result, always an
 * error.
 */

const signal = new AbortController().signal
const path = '.gitlab/agents/prod/config.yaml'
const versions = Object.keys(gitalyVersions) as GitalyVersion[]
const unpolled = { repositories: { pollMs: 3_600_000 } }
const unreadable = { code: 'REPOSITORY_FAILED' }

t.test('a wrong token and a clock that differs are named, and the token is not', async (t) => {
  const { repositories, gitaly, lines } = await startGitalySide(t, unpolled)
  gitaly.token = 'the-token-that-counts'
  const wrong = await failure(repositories.head(agent, signal))
  t.match(wrong, {
    ...unreadable,
    message: /^Repository: Gitaly's InfoRefsUploadPack: PermissionDenied: permission denied$/,
  })
  gitaly.token = 'gitaly-secret'
  gitaly.now = () => Date.now() + 3_600_000
  await repositories.pollAfterNotice(1n)
  t.match((await failure(repositories.head(agent, signal))).message, /PermissionDenied: .*token has expired$/)
  gitaly.now = Date.now
  await repositories.pollAfterNotice(1n)
  t.equal(await repositories.head(agent, signal), undefined, 'and it reads again')
  t.notMatch(JSON.stringify([lines, wrong]), /gitaly-secret|the-token|v2\./)
})

t.test('what Gitaly does not find is an absent file only where the commit is there', async (t) => {
  for (const version of versions) {
    const side = await startGitalySide(t, { ...unpolled, double: { version } })
    const { repositories, repository, folder } = side
    const commit = (await repository.push({ a: '1' })) as CommitId
    const lost = 'deadbeef'.repeat(5) as CommitId
    t.match(await failure(repositories.file(agent, lost, path, 10, signal)), unreadable, `${version}: no commit`)
    await rename(repository.bare, `${folder}/away`)
    t.match(await failure(repositories.file(agent, commit, path, 10, signal)), unreadable, `${version}: no repository`)
    t.match(await failure(repositories.head(agent, signal)), unreadable, `${version}: no repository has no head`)
    await rename(`${folder}/away`, repository.bare)
    t.equal(await repositories.file(agent, commit, path, 10, signal), undefined, `${version}: absent`)
  }
})

t.test('answers that are wrong, broken or missing', async (t) => {
  const { repositories, repository, gitaly } = await startGitalySide(t, unpolled)
  const commit = (await repository.push({ [path]: `long: ${'x'.repeat(100)}` })) as CommitId
  const faults: GitalyFault[] = [
    { kind: 'half' },
    { kind: 'broken' },
    { kind: 'garbage' },
    { kind: 'nothing' },
    ...Object.values(status)
      .filter((code) => typeof code === 'number' && code !== status.OK)
      .map((code) => ({ kind: 'status' as const, code: code as number, message: 'no' })),
  ]
  for (const fault of faults) {
    gitaly.fault = fault
    await repositories.pollAfterNotice(1n)
    t.match(await failure(repositories.head(agent, signal)), unreadable, `head: ${JSON.stringify(fault)}`)
    const error = await failure(repositories.file(agent, commit, path, 1000, signal))
    const isTooLarge = fault.kind === 'status' && fault.code === status.FAILED_PRECONDITION
    const expected = isTooLarge ? { message: `Config: ${path}: has more than 1000 bytes` } : unreadable
    t.match(error, expected, `file: ${JSON.stringify(fault)}`)
  }
  gitaly.fault = undefined
  await repositories.pollAfterNotice(1n)
  t.equal(await repositories.head(agent, signal), commit)
})

t.test('trees: answers that are wrong, broken or missing, at each call', async (t) => {
  const { repositories, repository, gitaly } = await startGitalySide(t, unpolled)
  const commit = (await repository.push({ a: 'x'.repeat(100), b: '' })) as CommitId
  const files = [...(await repositories.files(agent, commit, '', signal))]
  const limits = { maxFileBytes: 1000, maxTotalBytes: 1000 }
  const calls = {
    GetTreeEntries: () => repositories.files(agent, commit, '', signal),
    GetBlobs: () => repositories.blobs(agent, commit, files, limits, signal),
  }
  const faults: GitalyFault[] = [
    { kind: 'broken' },
    { kind: 'garbage' },
    ...Object.values(status)
      .filter((code) => typeof code === 'number' && code !== status.OK)
      .map((code) => ({ kind: 'status' as const, code: code as number, message: 'no' })),
  ]
  for (const [method, call] of Object.entries(calls) as [keyof typeof calls, () => Promise<unknown>][]) {
    for (const fault of faults) {
      gitaly.fault = { ...fault, method }
      const isAbsent = method === 'GetTreeEntries' && fault.kind === 'status' && fault.code === status.NOT_FOUND
      if (isAbsent) continue // GetTreeEntries answers NOT_FOUND if the folder is absent
      t.match(await failure(call()), unreadable, `${method}: ${JSON.stringify(fault)}`)
    }
    gitaly.fault = undefined
    t.equal(((await call()) as unknown[]).length, 2, method)
  }
  for (const kind of ['half', 'nothing'] as const) {
    gitaly.fault = { kind, method: 'GetBlobs' }
    t.match(await failure(calls.GetBlobs()), unreadable, kind)
  }
  gitaly.fault = undefined
  const lost = files.map((file) => ({ ...file, path: `${file.path}-lost` }))
  t.match(await failure(repositories.blobs(agent, commit, lost, limits, signal)), {
    ...unreadable,
    message: /GetBlobs: a-lost is not there/,
  })
})

t.test('a restart between two calls is not noticed', async (t) => {
  const { repositories, repository, gitaly } = await startGitalySide(t, unpolled)
  const one = (await repository.push({ [path]: '1' })) as CommitId
  t.equal(await repositories.head(agent, signal), one)
  await gitaly.leave()
  await gitaly.come()
  t.equal((await repositories.file(agent, one, path, 10, signal))?.length, 1)
})

t.test('a Gitaly that is away is tried again', async (t) => {
  const { repositories, repository, gitaly, lines } = await startGitalySide(t)
  const one = await repository.push({ [path]: '1' })
  let moves = 0
  t.teardown(repositories.onMove(agent, () => moves++))
  t.equal(await repositories.head(agent, signal), one)
  await gitaly.leave()
  await eventually(() => moves === 1 || Promise.reject(new Error('not noticed yet')))
  const away = await failure(repositories.head(agent, signal))
  t.match(away, { ...unreadable, message: /^Repository: Gitaly at tcp:\/\/127\.0\.0\.1:\d+: connect ECONNREFUSED/ })
  t.match(await failure(repositories.file(agent, one as CommitId, path, 10, signal)), unreadable)
  await gitaly.come()
  await eventually(() => moves === 2 || Promise.reject(new Error('not back yet')))
  t.equal(await repositories.head(agent, signal), one)
  t.equal(lines.filter(({ msg }) => msg === 'Repository cannot be read').length, 1, 'told once')
})

t.test('a Gitaly that says nothing: the call ends, and the next takes another connection', async (t) => {
  const side = await startGitalySide(t, { repositories: { pollMs: 3_600_000, callTimeoutMs: 300 } })
  const { repositories, repository, gitaly, learn } = side
  const one = (await repository.push({ file: '1' })) as CommitId
  const front = await FreezableFront.start(t, gitaly.port)
  learn({ address: `tcp://127.0.0.1:${front.port}` })
  t.equal(await repositories.head(agent, signal), one)
  front.freeze()
  const frozen = await failure(repositories.file(agent, one, 'file', 10, signal))
  t.match(frozen, { ...unreadable, message: /no whole answer after 300 ms$/ })
  t.equal((await repositories.file(agent, one, 'file', 10, signal))?.length, 1)
  gitaly.fault = { kind: 'silent' }
  t.match(await failure(repositories.file(agent, one, 'file', 10, signal)), unreadable)
  gitaly.fault = undefined
  t.equal((await repositories.file(agent, one, 'file', 10, signal))?.length, 1)
})

t.test('what nobody listens to, and what never answers the dial, is no Gitaly', async (t) => {
  const { repositories, learn } = await startGitalySide(t, {
    repositories: { pollMs: 3_600_000, connectTimeoutMs: 200 },
  })
  for (const [address, says] of [
    ['', /the address of Gitaly is not of unix:/],
    ['gitaly.internal:8075', /is not of unix:/],
    ['http://127.0.0.1:1', /is not of unix:/],
    ['tcp://127.0.0.1', /is not of unix:/],
    ['unix:/nowhere/gitaly.socket', /Gitaly at unix:\/nowhere\/gitaly\.socket: connect ENOENT/],
    ['tcp://127.0.0.1:1', /connect ECONNREFUSED/],
  ] as const) {
    learn({ address })
    t.match(await failure(repositories.head(agent, signal)), { ...unreadable, message: says }, address)
  }
})

t.test('refs without an end, and of more bytes than are read', async (t) => {
  const { repositories, repository } = await startGitalySide(t, {
    repositories: { pollMs: 3_600_000, maxRefsBytes: 2000 },
    double: { chunkBytes: 500 },
    coordinates: { defaultBranch: 'zzz' },
  })
  await repository.push({ a: '1' })
  for (let i = 0; i < 50; i++) await repository.inBare('update-ref', `refs/heads/branch-${i}`, 'main')
  const error = await failure(repositories.head(agent, signal))
  t.match(error, { ...unreadable, message: 'Repository: Gitaly sends more than 2000 bytes of refs' })
})

t.test('stop ends what is under way', async (t) => {
  const { repositories, repository, gitaly } = await startGitalySide(t, unpolled)
  const commit = (await repository.push({ a: '1' })) as CommitId
  gitaly.fault = { kind: 'silent' }
  const head = failure(repositories.head(agent, signal))
  const file = failure(repositories.file(agent, commit, 'a', 10, signal))
  const left = new AbortController()
  const reason = new KasError({ code: 'CANCELLED' })
  const waiting = failure(repositories.file(agent, commit, 'a', 10, left.signal))
  await eventually(() => gitaly.calls.length === 3 || Promise.reject(new Error('not asked yet')))
  left.abort(reason)
  t.equal(await waiting, reason)
  await repositories.stop()
  t.match([await head, await file], [{ code: 'SHUTTING_DOWN' }, { code: 'SHUTTING_DOWN' }])
  t.match(await failure(repositories.head(agent, signal)), { code: 'SHUTTING_DOWN' })
})
