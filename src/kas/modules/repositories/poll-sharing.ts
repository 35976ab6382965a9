import { create } from '@bufbuild/protobuf'
import type { Clock } from '../../../lib/clock.ts'
import type { Logger } from '../../../lib/log.ts'
import { RepeatedRead } from '../../../lib/repeated-read.ts'
import type { Service } from '../../../lib/service.ts'
import { ageMs } from '../../../proto/age-ms.ts'
import { Notifications } from '../../../proto/gen/replica_notifications_pb.ts'
import {
  type FollowedBranch,
  FollowedBranchesResponseSchema,
  LookResponseSchema,
  Repositories,
} from '../../../proto/gen/replica_repositories_pb.ts'
import { type UnaryMethods, unaryService } from '../../../proto/unary.ts'
import type { KasHost } from '../../module.ts'
import type { Peer, Peers } from '../../peers/peers.ts'
import type { BranchHere, SharedPolls } from '../../repositories/shared-polls.ts'
import { followedForMs, moves, PeerFollows, readingOf } from './peer-follows.ts'
import { SpacedPolls } from './spaced-polls.ts'

export interface PollSharingComponents {
  readonly polls: SharedPolls
  readonly repositories: Pick<KasHost['repositories']['trees'], 'pollAndReport'> &
    Pick<KasHost['repositories'], 'pollAfterNotice'>
  readonly peers: Pick<Peers, 'first' | 'call' | 'broadcast' | 'onChange'>
  readonly clock: Clock
  readonly log: Logger
}

/** period of announcements of followed branches, in ms */
const periodMs = 60_000
/** pause after a peer came or left, since others do so together, in ms */
const settleMs = 1000
/** pause after another branch is followed, since agents come in crowds, in ms */
const gatherMs = 5000
/** branches of one message: each has some 100 bytes, 400 with the longest ref */
const maxBranches = 500

/**
 * Shares polls: the first replica in the ring's order for a repository polls it for all. Replicas that follow it
 * announce so each minute, and learn of moves by `Notifications`. They poll themselves until the first replica has
 * confirmed that it does.
 *
 * @see doc/reference/directory.md "Who asks a repository"
 */
export class PollSharing implements Service {
  readonly #components: PollSharingComponents
  readonly #follows: PeerFollows
  /** polls of this replica */
  readonly #pollsHere: SpacedPolls
  /** requests by hooks, before it is known which replica polls */
  readonly #hooks: SpacedPolls
  /** keys of branches that peers poll, and where they have found none yet */
  readonly #unseen = new Set<string>()
  readonly #announcing = new RepeatedRead(() => this.#announce())
  #cancel: (() => void) | undefined
  /** time of the next announcement, by the clock */
  #dueAt = Number.POSITIVE_INFINITY
  #unsubscribe: readonly (() => void)[] = []
  #hasStopped = false

  constructor(components: PollSharingComponents) {
    const { clock } = components
    this.#components = components
    this.#follows = new PeerFollows(components)
    this.#pollsHere = new SpacedPolls({
      clock,
      poll: (projectId) => this.#run(components.repositories.pollAndReport(projectId)),
    })
    this.#hooks = new SpacedPolls({ clock, poll: (projectId) => this.#run(this.#askFirst(projectId)) })
  }

  /** Branches that are followed here for peers. */
  get followedForPeers(): number {
    return this.#follows.size
  }

  /** Methods that peers call. */
  get replicaMethods(): UnaryMethods {
    return unaryService(Repositories, {
      followedBranches: async ({ branch }) => {
        const known = branch.map((each) => this.#followed(each))
        return create(FollowedBranchesResponseSchema, { branch: known })
      },
      look: async ({ projectId, key }) => create(LookResponseSchema, { isPolled: this.#pollHere(projectId, key) }),
    })
  }

  async start(): Promise<void> {
    const { peers, polls } = this.#components
    this.#unsubscribe = [
      peers.onChange(() => this.#announceAfter(settleMs)),
      polls.onFollowed(() => this.#announceAfter(gatherMs)),
    ]
    this.#announceAfter(settleMs)
  }

  async stop(): Promise<void> {
    this.#hasStopped = true // later answers begin nothing
    for (const unsubscribe of this.#unsubscribe) unsubscribe()
    this.#cancel?.()
    this.#pollsHere.stop()
    this.#hooks.stop()
    this.#follows.stop()
    await this.#announcing.stop()
  }

  /** Polls the repository of this project within a second: an authorized sender announced a move. */
  poll(projectId: bigint): void {
    this.#hooks.ask(projectId)
  }

  #announceAfter(ms: number): void {
    const { clock } = this.#components
    if (this.#hasStopped || clock.now() + ms >= this.#dueAt) return
    this.#cancel?.()
    this.#dueAt = clock.now() + ms
    this.#cancel = clock.after(ms, () => {
      this.#dueAt = Number.POSITIVE_INFINITY
      this.#announceAfter(periodMs)
      void this.#announcing.now()
    })
  }

  /** Announces to each peer the branches that it is to poll. */
  async #announce(): Promise<void> {
    const { polls, peers } = this.#components
    const branches = polls.followed().filter(({ of }) => moves(of))
    polls.elsewhere.keep(branches)
    const byPeer = new Map<string, { readonly peer: Peer; readonly branches: BranchHere[] }>()
    for (const branch of branches) {
      const first = peers.first(branch.repositoryKey)
      if (first === undefined || first === 'self') continue
      const known = byPeer.get(first.instance) ?? { peer: first, branches: [] }
      byPeer.set(first.instance, known)
      known.branches.push(branch)
    }
    await Promise.all(Array.from(byPeer.values(), ({ peer, branches }) => this.#announceTo(peer, branches)))
  }

  async #announceTo(peer: Peer, branches: readonly BranchHere[]): Promise<void> {
    const { clock, peers, log } = this.#components
    for (let i = 0; i < branches.length; i += maxBranches) {
      const part = branches.slice(i, i + maxBranches)
      const until = clock.now() + followedForMs
      try {
        const branch = part.map(({ key, of }) => ({
          key,
          projectId: of.project.id,
          ref: of.ref ?? '',
          agentId: of.id,
        }))
        const answer = await peers.call(peer.instance, Repositories.method.followedBranches, { branch })
        for (const [j, { isPolled, commit, readMs }] of answer.branch.slice(0, part.length).entries()) {
          if (readMs !== undefined) this.#components.polls.peerRead((part[j] as BranchHere).of, clock.now() - readMs)
          this.#learn(part[j] as BranchHere, isPolled ? { instance: peer.instance, until } : undefined, commit)
        }
      } catch (error) {
        log.debug({ error, instance: peer.instance }, 'A replica does not say what it polls')
        return // it is an older version; or it is asked again in a minute, and its last answer still counts
      }
    }
  }

  #learn(branch: BranchHere, polled: { instance: string; until: number } | undefined, commit: string): void {
    const { polls } = this.#components
    if (!polled) {
      polls.elsewhere.forget(branch)
      this.#unseen.delete(branch.key)
      return
    }
    polls.elsewhere.announced(branch, polled)
    const known = polls.branch(branch.of)?.commit
    const wasUnseen = this.#unseen.delete(branch.key)
    if (known === undefined || commit === known) return
    if (commit === '') this.#unseen.add(branch.key)
    if (commit === '' && !wasUnseen)
      this.#announceAfter(gatherMs) // its first find is no move: it notifies nobody
    else this.#run(this.#components.repositories.pollAfterNotice(branch.of.project.id)) // a notice was lost, or the branch deleted
  }

  /** Returns the answer for a peer that follows the branch. */
  #followed(followed: FollowedBranch): { isPolled: boolean; commit: string; readMs?: number } {
    const { polls, peers, clock } = this.#components
    const of = readingOf(followed)
    const branch = of && polls.branch(of)
    const isPolled =
      of !== undefined &&
      branch?.key === followed.key &&
      peers.first(branch.repositoryKey) === 'self' &&
      this.#follows.renew(of) &&
      !branch.isFailing
    const readAt = branch?.key === followed.key ? branch.readAt : undefined
    const readMs = readAt === undefined ? {} : { readMs: ageMs(readAt, clock.now()) }
    return { isPolled, commit: isPolled ? (branch.commit ?? '') : '', ...readMs }
  }

  /** @returns true if the repository is followed here */
  #pollHere(projectId: bigint, key: string): boolean {
    const { polls } = this.#components
    const of = readingOf({ agentId: 0n, projectId, ref: '' })
    if (!of || polls.branch(of)?.key !== key || !polls.isFollowed(projectId)) return false
    this.#pollsHere.ask(projectId)
    return true
  }

  /** Requests a poll from the replica that polls for all; if there is none, all followers poll. */
  async #askFirst(projectId: bigint): Promise<void> {
    const { polls, peers, log } = this.#components
    const of = readingOf({ agentId: 0n, projectId, ref: '' })
    const branch = of && polls.branch(of)
    if (!branch) return
    const { key } = branch
    const first = peers.first(branch.repositoryKey)
    if (first === 'self') {
      if (this.#pollHere(projectId, key)) return
    } else if (first !== undefined) {
      const { method } = Repositories
      const { instance } = first
      const answer = await peers.call(instance, method.look, { projectId, key }).catch((error: unknown) => {
        log.debug({ error, instance }, 'A replica does not say whether it polls')
        return undefined
      })
      if (answer?.isPolled) return
    }
    this.#pollsHere.ask(projectId)
    await peers.broadcast(Notifications.method.branchMoved, { projectId })
  }

  /** Runs work that nobody waits for: git ends with the repositories. */
  #run(work: Promise<void>): void {
    work.catch((error: unknown) => this.#components.log.warn({ error }, 'A repository could not be polled'))
  }
}
