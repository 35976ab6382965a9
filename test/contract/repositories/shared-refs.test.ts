import { mkdtemp, rm } from 'node:fs/promises'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import t, { type Test } from 'tap'
import type { AgentId } from '../../../src/call/call.ts'
import { createNotifications } from '../../../src/kas/modules/notifications/module.ts'
import { PollSharing } from '../../../src/kas/modules/repositories/poll-sharing.ts'
import type { Peer } from '../../../src/kas/peers/peers.ts'
import { gitRepositories } from '../../../src/kas/repositories/git-repositories.ts'
import type { Reading } from '../../../src/kas/repositories/repositories.ts'
import { PolledElsewhere } from '../../../src/kas/repositories/shared-polls.ts'
import { systemClock } from '../../../src/lib/clock.ts'
import type { UnaryMethods } from '../../../src/proto/unary.ts'
import { capturedLog } from '../../support/captured-log.ts'
import { eventually } from '../../support/eventually.ts'
import { fakeHost } from '../../support/fake-host.ts'
import { ServedRepository } from '../../support/gitaly/served-repository.ts'
import { FakePeers } from '../../unit/kas/peers/fake-peers.ts'

/** Replicas that share the polls of a real repository. The last one polls for all. */

const project = { id: 1n, path: 'apps/web' }
const signal = new AbortController().signal

class LastPolls extends FakePeers {
  readonly #self: string

  constructor(peers: ReadonlyMap<string, UnaryMethods>, self: string) {
    super(peers)
    this.#self = self
  }

  override first(): Peer | 'self' {
    return this.#self === 'kas-2' ? 'self' : ({ name: 'kas-2', instance: 'kas-2' } as Peer)
  }
}

async function startReplica(
  t: Test,
  name: string,
  at: { readonly folder: string; readonly url: string },
  methods: Map<string, UnaryMethods>,
) {
  const peers = new LastPolls(methods, name)
  const { log } = capturedLog()
  const clock = systemClock
  const elsewhere = new PolledElsewhere({ peers, clock })
  const addresses = { repository: () => ({ url: at.url }), onChange: () => () => undefined }
  const options = { stateDir: join(at.folder, name), env: process.env, pollMs: 100 }
  const repositories = gitRepositories({ addresses, elsewhere, log }, options)
  t.teardown(() => repositories.stop())
  await repositories.start()
  const polls = {
    followed: () => repositories.followed(),
    onFollowed: (listener: () => void) => repositories.onFollowed(listener),
    branch: (of: Reading) => repositories.branch(of),
    peerRead: (of: Reading, at: number) => repositories.peerRead(of, at),
    isFollowed: (id: bigint) => repositories.isFollowed(id),
    followForPeer: (of: Reading) => repositories.onMove(of, () => undefined, { isForPeer: true }),
    elsewhere,
  }
  const sharing = new PollSharing({ polls, repositories, peers, clock, log })
  t.teardown(() => sharing.stop())
  const bare = fakeHost().repositories
  const own = {
    pollAfterNotice: repositories.pollAfterNotice.bind(repositories),
    onFound: repositories.onFound.bind(repositories),
  }
  const { replicaMethods = new Map() } = createNotifications(
    fakeHost({ repositories: { ...bare, ...own }, peers, clock }),
  )
  const others = new Map(methods)
  methods.set(name, new Map([...sharing.replicaMethods, ...replicaMethods]))
  for (const [other, served] of others) methods.set(other, served)
  return {
    repositories,
    sharing,
    isPolledElsewhere: (of: Reading) => {
      const branch = repositories.branch(of)
      return branch !== undefined && !elsewhere.pollsHere(branch, true)
    },
  }
}

t.test('a ref that has gone is known to the replica that does not poll', { timeout: 120_000 }, async (t) => {
  const folder = await mkdtemp(join(tmpdir(), 'kas-refs-'))
  t.teardown(() => rm(folder, { recursive: true, force: true, maxRetries: 5 }))
  const repository = await ServedRepository.create(folder, 'remote.git')
  await repository.push({ 'a.yaml': 'a: 1' })
  await repository.git('push', '--quiet', repository.bare, 'HEAD:refs/tags/v2', 'HEAD:refs/heads/gone')
  const methods = new Map<string, UnaryMethods>()
  const at = { folder, url: repository.bare }
  const [home, polling] = [await startReplica(t, 'kas-1', at, methods), await startReplica(t, 'kas-2', at, methods)]
  const deletions = [
    ['refs/tags/v2', 'refs/tags/v2'],
    ['refs/heads/gone', 'refs/heads/gone'],
    [undefined, 'refs/heads/main'],
  ] as const
  for (const [ref] of deletions) {
    const of: Reading = { id: 42n as AgentId, project, ref }
    t.teardown(home.repositories.onMove(of, () => undefined))
    t.ok(await home.repositories.head(of, signal))
  }
  await home.sharing.start()
  await polling.sharing.start()
  for (const [ref] of deletions) {
    const of: Reading = { id: 42n as AgentId, project, ref }
    await eventually(() => home.isPolledElsewhere(of) && polling.repositories.branch(of)?.commit !== undefined)
  }
  for (const [ref, name] of deletions) {
    const of: Reading = { id: 42n as AgentId, project, ref }
    const moved = Promise.withResolvers<void>()
    t.teardown(home.repositories.onMove(of, moved.resolve))
    await repository.inBare('update-ref', '-d', name)
    await moved.promise
    const head = await home.repositories.head(of, signal).catch((error) => error.spec.code)
    t.ok(head === 'REF_NOT_FOUND' || head === undefined, `${name}: ${head}`)
  }
})
