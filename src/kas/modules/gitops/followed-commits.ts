import type { AgentId } from '../../../call/call.ts'
import type { Clock } from '../../../lib/clock.ts'
import type { KasError } from '../../../lib/errors.ts'
import { ageMs } from '../../../proto/age-ms.ts'
import type {
  FollowedCommit as FollowedMessage,
  Polled as PolledMessage,
} from '../../../proto/gen/replica_gitops_pb.ts'
import type { CommitId, Polled, Reading, Repositories } from '../../repositories/repositories.ts'
import type { ObjectsRequest } from './objects-request.ts'

/** Time in ms before a state is reported: a poll may fail once, and a commit may be on its way. */
export const patienceMs = 8_000
/** Time in which an agent asks again after it was sent a commit, in ms; later it counts as gone. */
const maxSentMs = 120_000
/** Remembered streams of one agent, open ones included: beyond that, streams are forgotten as they end. */
const maxFollowed = 300
/** Characters of a problem's text; the rest is cut. */
const maxProblemLength = 500

/** Files that an agent follows by one stream. */
interface Followed {
  readonly agentId: AgentId
  /** as in the agent's request */
  readonly project: string
  /** `branch main`; empty: the default branch */
  readonly ref: string
  /** undefined: the project is not known yet, or may not be read */
  reading: Reading | undefined
  /** the commit that the agent has or is to have; its row reports the same soon */
  newest: { readonly since: number; readonly commit: string; readonly problem: string }
}

/**
 * Commits that agents have, or are to have, of the files that they follow here. The agents' rows may not report them,
 * or the agents cannot know them.
 */
export class FollowedCommits {
  readonly #clock: Clock
  readonly #agents = new Map<AgentId, Set<Followed>>()
  /**
   * streams that ended after a whole commit was sent, and when, oldest first: the next stream shows that the agent has
   * it
   */
  readonly #sent = new Map<Followed, number>()

  constructor(clock: Clock) {
    this.#clock = clock
  }

  /** Begins a stream of the agent, until `end`. @param question - its ref is in full: `refs/heads/main` */
  follow(agentId: AgentId, { project, ref, commit }: Pick<ObjectsRequest, 'project' | 'ref' | 'commit'>) {
    const newest = (commit: string, problem: string, since = this.#clock.now()) => ({ since, commit, problem })
    const followed: Followed = { agentId, project, ref: refText(ref), reading: undefined, newest: newest(commit, '') }
    this.#forgetOld()
    for (const one of this.#agents.get(agentId) ?? []) {
      if (this.#sent.has(one) && one.project === project && one.ref === followed.ref) this.#forget(one)
    }
    this.#agents.set(agentId, (this.#agents.get(agentId) ?? new Set()).add(followed))
    const become = (commit: string, problem: string) => {
      const { newest: before } = followed
      const isSame = before.commit === commit && (before.problem === '') === (problem === '')
      followed.newest = newest(commit, problem, isSame ? before.since : undefined)
    }
    return {
      /** the ref to read is known */
      reads: (reading: Reading) => {
        followed.reading = reading
      },
      /** no newer commit was found */
      taken: () => become(commit, ''),
      found: (commit: CommitId) => become(commit, ''),
      failed: (error: KasError) => become(followed.newest.commit, error.message.slice(0, maxProblemLength)),
      /** @param isSent - the whole commit that was found was sent */
      end: (isSent: boolean) => {
        const isRoom = (this.#agents.get(agentId)?.size ?? 0) <= maxFollowed
        if (isSent && isRoom) this.#sent.set(followed, this.#clock.now())
        else this.#forget(followed)
      },
    }
  }

  #forgetOld(): void {
    for (const [followed, at] of this.#sent) {
      if (this.#clock.now() - at < maxSentMs) return
      this.#forget(followed)
    }
  }

  #forget(followed: Followed): void {
    this.#sent.delete(followed)
    const all = this.#agents.get(followed.agentId)
    all?.delete(followed)
    if (all?.size === 0) this.#agents.delete(followed.agentId)
  }

  /** Lists the refs that the agent's streams read here, or read a moment ago. */
  readings(agentId: AgentId): Reading[] {
    this.#forgetOld()
    return Array.from(this.#agents.get(agentId) ?? []).flatMap(({ reading }) => reading ?? [])
  }

  /**
   * Lists the commits of an agent's streams.
   *
   * @param repositories - give the results of polls
   * @param contains - true if a head contains the requested commit; absent: none was requested
   */
  of(
    agentId: AgentId,
    repositories?: Pick<Repositories, 'lastPoll'>,
    contains?: (reading: Reading, head: string) => boolean | undefined,
  ): FollowedCommit[] {
    this.#forgetOld()
    const now = this.#clock.now()
    const all = Array.from(this.#agents.get(agentId) ?? [], (followed) => {
      const { project, ref, reading, newest } = followed
      const { since, commit, problem } = newest
      const last = reading && polledOf(repositories?.lastPoll(reading), now)
      const has = reading && last?.commit ? contains?.(reading, last.commit) : undefined
      const polled = last && { ...last, ...(has !== undefined && { contains: has }) }
      const ended = this.#sent.has(followed)
      return { project, ref, commit, problem, ageMs: ageMs(since, now), ended, ...(polled && { polled }) }
    })
    return all.filter(({ commit, problem }) => commit !== '' || problem !== '')
  }
}

/** Converts the result of a poll for peers. */
export function polledOf(polled: Polled | undefined, now: number): PolledRef | undefined {
  // after the clock was set back, the age is unknown
  if (!polled || polled.at > now) return undefined
  const { commit = '', at, readAt } = polled
  return { commit, ageMs: ageMs(at, now), ...(readAt !== undefined && { readMs: ageMs(readAt, now) }) }
}

export interface PolledRef extends Pick<PolledMessage, 'commit' | 'ageMs'> {
  readonly readMs?: number | undefined
  readonly contains?: boolean | undefined
}

export interface FollowedCommit
  extends Pick<FollowedMessage, 'project' | 'ref' | 'commit' | 'problem' | 'ageMs' | 'ended'> {
  readonly polled?: PolledRef | undefined
}

export function isLasting({ ageMs }: Pick<FollowedCommit, 'ageMs'>): boolean {
  return ageMs >= patienceMs
}

/** Returns the ref as a row writes it: `branch main`. */
function refText(ref: string | undefined): string {
  if (ref === undefined) return ''
  const [, kind, name] = /^refs\/(heads|tags)\/(.*)$/.exec(ref) ?? []
  if (kind === undefined) return `commit ${ref}`
  return `${kind === 'heads' ? 'branch' : 'tag'} ${name}`
}
