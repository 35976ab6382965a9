import { create, toBinary } from '@bufbuild/protobuf'
import t, { type Test } from 'tap'
import type { AgentId } from '../../../../../src/call/call.ts'
import { PollSharing, type PollSharingComponents } from '../../../../../src/kas/modules/repositories/poll-sharing.ts'
import type { Peer } from '../../../../../src/kas/peers/peers.ts'
import type { CommitId, Reading } from '../../../../../src/kas/repositories/repositories.ts'
import { PolledElsewhere } from '../../../../../src/kas/repositories/shared-polls.ts'
import { FollowedBranchesRequestSchema, Repositories } from '../../../../../src/proto/gen/replica_repositories_pb.ts'
import { methodPath, type UnaryMethods } from '../../../../../src/proto/unary.ts'
import { capturedLog } from '../../../../support/captured-log.ts'
import { ManualClock, settle } from '../../../../support/manual-clock.ts'
import { FakePeers } from '../../peers/fake-peers.ts'

const minuteMs = 60_000
const followedPath = methodPath(Repositories.method.followedBranches)
const settled = () => settle(20)
const commit = (digit: string) => digit.repeat(40) as CommitId

/** Replicas on one clock. All of them rank the replicas of a repository as the test says. */
class Cluster {
  readonly clock = new ManualClock()
  /** ranked names of replicas, by repository */
  readonly ranks = new Map<string, readonly string[]>()
  readonly replicas = new Map<string, Replica>()
  readonly #t: Test

  constructor(t: Test) {
    this.#t = t
  }

  async add(name: string, { isOlder = false } = {}): Promise<Replica> {
    const replica = new Replica(this, name, isOlder)
    this.replicas.set(name, replica)
    await replica.sharing.start()
    this.#t.teardown(() => replica.sharing.stop())
    for (const each of this.replicas.values()) each.notify()
    return replica
  }

  remove(name: string): void {
    this.replicas.delete(name)
    for (const each of this.replicas.values()) each.notify()
  }

  async after(ms: number): Promise<void> {
    this.clock.advance(ms)
    await settled()
  }
}

/** A replica, with the branches that it follows for itself and for peers. */
class Replica {
  readonly name: string
  readonly sharing: PollSharing
  readonly elsewhere: PolledElsewhere
  readonly methods: UnaryMethods
  /** repository of each project, as this replica reads it */
  readonly urls = new Map<bigint, string>()
  readonly commits = new Map<string, CommitId>()
  readonly followed: Reading[] = []
  readonly forPeers: Reading[] = []
  /** `refreshed`: projects that were polled; `poked`: projects that a message named */
  readonly unnotified: bigint[] = []
  readonly notified: bigint[] = []
  isFailing = false
  readAt: number | undefined
  /** times at which peers have read, by the clock */
  readonly peerReads: number[] = []
  readonly #listeners = new Set<() => void>()
  #onFollowed = () => {}

  constructor(cluster: Cluster, name: string, isOlder: boolean) {
    this.name = name
    const { clock } = cluster
    const reached = () => {
      const others = [...cluster.replicas.values()].filter((each) => each.name !== name)
      return new FakePeers(new Map(others.map((each) => [each.name, each.methods])))
    }
    const peers: PollSharingComponents['peers'] = {
      first: (key) => {
        const found = cluster.ranks.get(key)?.find((each) => each === name || cluster.replicas.has(each))
        return found === name ? 'self' : found === undefined ? undefined : ({ name: found, instance: found } as Peer)
      },
      call: (...args) => reached().call(...args),
      broadcast: (...args) => reached().broadcast(...args),
      onChange: (listener) => {
        this.#listeners.add(listener)
        return () => this.#listeners.delete(listener)
      },
    }
    this.elsewhere = new PolledElsewhere({ peers, clock })
    const polls: PollSharingComponents['polls'] = {
      followed: () => this.followed.flatMap((of) => polls.branch(of) ?? []),
      branch: (of) => {
        const url = this.urls.get(of.project.id)
        if (url === undefined) return undefined
        const key = `${url} ${of.ref ?? ''}`
        const { readAt, isFailing } = this
        return { repositoryKey: url, key, of, commit: this.commits.get(key), readAt, isFailing }
      },
      peerRead: (_, at) => this.peerReads.push(at),
      isFollowed: (id) => [...this.followed, ...this.forPeers].some(({ project }) => project.id === id),
      onFollowed: (listener) => {
        this.#onFollowed = listener
        return () => undefined
      },
      followForPeer: (of) => {
        this.forPeers.push(of)
        return () => this.forPeers.splice(this.forPeers.indexOf(of), 1)
      },
      elsewhere: this.elsewhere,
    }
    const repositories = {
      pollAndReport: async (projectId: bigint) => void this.unnotified.push(projectId),
      pollAfterNotice: async (projectId: bigint) => void this.notified.push(projectId),
    }
    this.sharing = new PollSharing({ polls, repositories, peers, clock, log: capturedLog().log })
    const moved: UnaryMethods = new Map([
      [
        '/kas.replica.v1.Notifications/BranchMoved',
        async (bytes) => {
          this.notified.push(BigInt(bytes[1] ?? 0)) // field 1, below 128
          return new Uint8Array()
        },
      ],
    ])
    this.methods = new Map([...(isOlder ? [] : this.sharing.replicaMethods), ...moved])
  }

  notify(): void {
    for (const listener of this.#listeners) listener()
  }

  /** Follows a branch for one of its own agents. */
  follow(projectId: bigint, url: string, ref?: string): void {
    this.urls.set(projectId, url)
    this.followed.push(reading(projectId, ref))
    this.#onFollowed()
  }

  /** True if the replica itself polls this branch. */
  polls(url: string, ref = '', isOwn = true): boolean {
    return this.elsewhere.pollsHere({ repositoryKey: url, key: `${url} ${ref}` }, isOwn)
  }
}

function reading(projectId: bigint, ref?: string): Reading {
  return { id: 42n as AgentId, project: { id: projectId, path: 'a/b' }, ref }
}

t.test(
  'the first in rank polls, also where none of its own agents follows it; the others do until it says so',
  async (t) => {
    const cluster = new Cluster(t)
    cluster.ranks.set('one', ['kas-0', 'kas-1', 'kas-2'])
    const [first, second, third] = [await cluster.add('kas-0'), await cluster.add('kas-1'), await cluster.add('kas-2')]
    first.urls.set(1n, 'one')
    second.follow(1n, 'one')
    second.follow(1n, 'one', 'refs/heads/next')
    third.follow(1n, 'one')
    t.equal(second.polls('one'), true, 'nobody has said anything yet')
    await cluster.after(1000)
    t.strictSame(
      [second.polls('one'), second.polls('one', 'refs/heads/next'), third.polls('one')],
      [false, false, false],
    )
    t.strictSame(
      first.forPeers.map(({ ref }) => ref),
      [undefined, 'refs/heads/next'],
      'each once',
    )
    t.equal(first.polls('one', '', false), true)
    t.equal(first.sharing.followedForPeers, 2)
    for (let minutes = 0; minutes < 10; minutes++) await cluster.after(minuteMs)
    t.equal(second.polls('one'), false, 'it says so each minute')
    second.followed.splice(1)
    await cluster.after(4 * minuteMs)
    t.equal(first.forPeers.length, 1, 'what nobody follows any more is left')
  },
)

t.test('the first is gone: the others poll at once, and the next one does for all within seconds', async (t) => {
  const cluster = new Cluster(t)
  cluster.ranks.set('one', ['kas-0', 'kas-1', 'kas-2'])
  const [first, next, third] = [await cluster.add('kas-0'), await cluster.add('kas-1'), await cluster.add('kas-2')]
  for (const each of [first, next]) each.urls.set(1n, 'one')
  third.follow(1n, 'one')
  await cluster.after(1000)
  t.strictSame([third.polls('one'), first.forPeers.length, next.forPeers.length], [false, 1, 0])
  cluster.remove('kas-0')
  t.equal(third.polls('one'), true)
  await cluster.after(1000)
  t.strictSame([third.polls('one'), next.forPeers.length], [false, 1])
  const again = await cluster.add('kas-0')
  again.urls.set(1n, 'one')
  t.equal(third.polls('one'), true, 'it has started anew, and knows nothing')
  t.equal(next.polls('one', '', false), false, 'it is not the first any more')
  await cluster.after(1000)
  t.strictSame([third.polls('one'), again.forPeers.length], [false, 1])
  await cluster.after(3 * minuteMs)
  t.equal(next.forPeers.length, 0)
})

t.test('an older replica polls for nobody, and hears of moves', async (t) => {
  const cluster = new Cluster(t)
  cluster.ranks.set('one', ['kas-0', 'kas-1', 'kas-2'])
  const [older, one, other] = [
    await cluster.add('kas-0', { isOlder: true }),
    await cluster.add('kas-1'),
    await cluster.add('kas-2'),
  ]
  for (const each of [one, other]) each.follow(1n, 'one')
  await cluster.after(minuteMs)
  t.strictSame([one.polls('one'), other.polls('one')], [true, true])
  other.sharing.poll(1n)
  await settled()
  t.strictSame([other.unnotified, one.notified, older.notified], [[1n], [1n], [1n]], 'a hook reaches all of them')
})

t.test('who reads it from elsewhere, or cannot read it, polls for nobody', async (t) => {
  const cluster = new Cluster(t)
  cluster.ranks.set('one', ['kas-0', 'kas-1'])
  cluster.ranks.set('moved', ['kas-0', 'kas-1'])
  const [first, other] = [await cluster.add('kas-0'), await cluster.add('kas-1')]
  other.follow(1n, 'one')
  await cluster.after(1000)
  t.equal(other.polls('one'), true, 'its directory file does not have the project yet')
  first.urls.set(1n, 'one')
  await cluster.after(minuteMs)
  t.equal(other.polls('one'), false)
  other.urls.set(1n, 'moved')
  t.equal(other.polls('moved'), true, 'with another address, or other credentials')
  await cluster.after(minuteMs)
  t.equal(other.polls('moved'), true)
  first.urls.set(1n, 'moved')
  await cluster.after(minuteMs)
  t.equal(other.polls('moved'), false)
  first.isFailing = true
  await cluster.after(minuteMs)
  t.equal(other.polls('moved'), true, 'its credentials may be others')
  t.equal(first.forPeers.length, 1, 'it goes on to try')
  first.isFailing = false
  await cluster.after(minuteMs)
  t.equal(other.polls('moved'), false)
})

t.test('what is followed anew is said after 5 s', async (t) => {
  const cluster = new Cluster(t)
  cluster.ranks.set('one', ['kas-0', 'kas-1'])
  const [first, other] = [await cluster.add('kas-0'), await cluster.add('kas-1')]
  first.urls.set(1n, 'one')
  await cluster.after(minuteMs / 2)
  other.follow(1n, 'one')
  await cluster.after(4999)
  t.equal(other.polls('one'), true)
  await cluster.after(1)
  t.equal(other.polls('one'), false)
})

t.test('a notice that was lost is mended within a minute', async (t) => {
  const cluster = new Cluster(t)
  cluster.ranks.set('one', ['kas-0', 'kas-1'])
  const [first, other] = [await cluster.add('kas-0'), await cluster.add('kas-1')]
  first.urls.set(1n, 'one')
  other.follow(1n, 'one')
  for (const each of [first, other]) each.commits.set('one ', commit('a'))
  await cluster.after(1000)
  t.strictSame(other.notified, [])
  first.commits.set('one ', commit('b'))
  await cluster.after(minuteMs)
  t.strictSame(other.notified, [1n])
})

t.test('a branch that has gone, of which the notice was lost, is polled by those that follow it', async (t) => {
  const { cluster, first, other } = await followedElsewhere(t)
  first.commits.set('one ', commit('a'))
  await cluster.after(1000)
  first.commits.delete('one ')
  await cluster.after(minuteMs)
  t.strictSame(other.notified, [], 'it may have no answer yet')
  await cluster.after(5000)
  t.strictSame(other.notified, [1n])
  other.commits.delete('one ')
  await cluster.after(3 * minuteMs)
  t.strictSame(other.notified, [1n], 'once it is known here, nobody asks')
})

/** Starts with a replica that follows a branch, and the first in rank, which polls for it. */
async function followedElsewhere(t: Test) {
  const cluster = new Cluster(t)
  cluster.ranks.set('one', ['kas-0', 'kas-1'])
  const [first, other] = [await cluster.add('kas-0'), await cluster.add('kas-1')]
  first.urls.set(1n, 'one')
  other.follow(1n, 'one')
  other.commits.set('one ', commit('a'))
  return { cluster, first, other }
}

t.test('what is pushed before the first poll of the one that polls is known within seconds', async (t) => {
  const { cluster, first, other } = await followedElsewhere(t)
  await cluster.after(1000)
  t.equal(other.polls('one'), false)
  first.commits.set('one ', commit('b')) // this replica has seen no other commit, so it notifies nobody
  t.strictSame(other.notified, [])
  await cluster.after(5000)
  t.strictSame(other.notified, [1n])
})

t.test('a hook: the one that polls looks, once a second, whichever replica it comes to', async (t) => {
  const cluster = new Cluster(t)
  cluster.ranks.set('one', ['kas-0', 'kas-1', 'kas-2'])
  const [first, second, third] = [await cluster.add('kas-0'), await cluster.add('kas-1'), await cluster.add('kas-2')]
  for (const each of [first, third]) each.urls.set(1n, 'one')
  second.follow(1n, 'one')
  await cluster.after(1000)
  for (const each of [third, second, first, third]) each.sharing.poll(1n)
  await settled()
  t.strictSame([first.unnotified, second.unnotified, third.unnotified], [[1n], [], []])
  await cluster.after(1000)
  t.strictSame(first.unnotified, [1n, 1n], 'those that came meanwhile are one')
  await cluster.after(5000)
  t.equal(first.unnotified.length, 2, 'those that came to another replica too')
  third.sharing.poll(7n)
  await settled()
  t.strictSame(
    [first, second, third].map(({ unnotified }) => unnotified.length),
    [2, 0, 0],
    'a project that nobody has',
  )
  t.strictSame(
    [first, second, third].map(({ notified }) => notified),
    [[], [], []],
  )
})

t.test('a hook before anybody has said what it follows reaches all that follow it', async (t) => {
  const cluster = new Cluster(t)
  cluster.ranks.set('one', ['kas-0', 'kas-1'])
  const [first, second] = [await cluster.add('kas-0'), await cluster.add('kas-1')]
  first.urls.set(1n, 'one')
  second.follow(1n, 'one')
  first.sharing.poll(1n)
  await settled()
  t.strictSame(second.notified, [1n])
})

t.test('what is answered, or asked for, while it stops begins nothing anew', async (t) => {
  const { cluster, first, other } = await followedElsewhere(t)
  other.sharing.poll(1n)
  cluster.clock.advance(1000) // it asks the first replica, which has found nothing yet
  await Promise.all([other.sharing.stop(), first.sharing.stop()])
  await settled()
  other.sharing.poll(1n)
  await first.methods.get(followedPath)?.(
    toBinary(
      FollowedBranchesRequestSchema,
      create(FollowedBranchesRequestSchema, { branch: [{ key: 'one ', projectId: 1n, agentId: 42n }] }),
    ),
  )
  t.equal(cluster.clock.pending, 0)
  t.strictSame(first.forPeers, [])
})

t.test('what is followed goes in messages of a bounded size; what cannot be a branch is not followed', async (t) => {
  const cluster = new Cluster(t)
  const [first, other] = [await cluster.add('kas-0'), await cluster.add('kas-1')]
  const count = 1201
  for (let i = 1; i <= count; i++) {
    cluster.ranks.set(`url-${i}`, ['kas-0', 'kas-1'])
    first.urls.set(BigInt(i), `url-${i}`)
    other.follow(BigInt(i), `url-${i}`)
  }
  other.follow(1n, 'url-1', 'f'.repeat(40))
  const sizes: number[] = []
  const serve = first.methods.get(followedPath)
  ;(first.methods as Map<string, unknown>).set(followedPath, (bytes: Uint8Array) => {
    sizes.push(bytes.length)
    return serve?.(bytes)
  })
  await cluster.after(1000)
  t.equal(sizes.length, 3)
  t.ok(Math.max(...sizes) < 256 * 1024)
  t.equal(first.forPeers.length, count, 'a commit does not move')
  const branch = ['HEAD', '--upload-pack=x', 'refs/heads/a b', `refs/heads/${'x'.repeat(251)}`].map((ref) => ({
    key: `url-1 ${ref}`,
    projectId: 1n,
    ref,
    agentId: 42n,
  }))
  const request = create(FollowedBranchesRequestSchema, { branch })
  await serve?.(toBinary(FollowedBranchesRequestSchema, request))
  t.equal(first.forPeers.length, count)
})

t.test('when the repository could be read last is said by who polls it, also while that fails', async (t) => {
  const cluster = new Cluster(t)
  cluster.ranks.set('one', ['kas-1'])
  const home = await cluster.add('kas-0')
  const polling = await cluster.add('kas-1')
  polling.urls.set(1n, 'one')
  polling.readAt = cluster.clock.now()
  home.follow(1n, 'one')
  for (let second = 0; second < 75; second++) {
    polling.isFailing = second > 10
    await cluster.after(1000)
  }
  t.ok(home.peerReads.length >= 2)
  t.strictSame([...new Set(home.peerReads)], [polling.readAt])
  t.ok(home.polls('one'), 'it asks itself by then')
})
