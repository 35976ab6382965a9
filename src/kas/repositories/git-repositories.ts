import { createHash } from 'node:crypto'
import { join } from 'node:path'
import { type Clock, systemClock } from '../../lib/clock.ts'
import { KasError } from '../../lib/errors.ts'
import type { Logger } from '../../lib/log.ts'
import { Turns } from '../../lib/turns.ts'
import { BranchWatch } from './branch-watch.ts'
import { DiskUse } from './disk-use.ts'
import { GitMirror } from './git-mirror.ts'
import { GitTree } from './git-tree.ts'
import type { OpenedFor, WatchedRepository } from './opened-repository.ts'
import type { Reading } from './repositories.ts'
import { type RepositoryAddress, usualPollMs } from './repository-url.ts'
import type { PolledElsewhere } from './shared-polls.ts'
import { type FollowedBranch, type ProjectAddresses, WatchedRepositories } from './watched-repositories.ts'

export type RepositoryAddresses = ProjectAddresses<RepositoryAddress>

export interface GitRepositoriesOptions {
  /** folder of the mirrors, for one process alone */
  readonly stateDir: string
  /** environment of kas, from which git gets PATH, HOME, proxies and certificates */
  readonly env: Readonly<Record<string, string | undefined>>
  /** from one poll of a repository to the next while an agent follows it, in ms; default: from its address */
  readonly pollMs?: number
  /** a newest commit that takes more is refused, in bytes; for a moment the disk may carry twice as much */
  readonly maxRepositoryBytes?: number
  /** bound of all mirrors of refs beside default branches, in bytes: any follower can name such refs */
  readonly maxCountedBytes?: number
  /** bound of the mirrors that one agent was the first to follow, in bytes: room is left for others */
  readonly maxCountedBytesOfAgent?: number
  /** git processes at once, over all repositories */
  readonly maxProcesses?: number
  /** git processes of one agent that follows refs, or of one project's default branch: others find a free one */
  readonly maxProcessesOfSource?: number
  /** git processes that wait for a turn; more are refused */
  readonly maxWaitingProcesses?: number
  /** open repositories; the longest unused one makes room */
  readonly maxRepositories?: number
  /** a git process without output for this long is ended, in ms */
  readonly silenceTimeoutMs?: number
  /** the longest that one poll, fetch included, or another git process may take, in ms */
  readonly updateTimeoutMs?: number
  /** computing time of a git process and of each of its helpers, in seconds of a core */
  readonly maxCpuSeconds?: number
  /** memory that a git process and each of its helpers may allocate, in bytes */
  readonly maxMemoryBytes?: number
  readonly renewAfterFetches?: number
  /** the longest pause after failed polls, in ms */
  readonly maxBackoffMs?: number
  readonly sizeCheckMs?: number
  readonly keepReplacedMs?: number
}

const defaults = {
  maxRepositoryBytes: 256 << 20,
  maxCountedBytes: 8 * 2 ** 30,
  maxCountedBytesOfAgent: 2 * 2 ** 30, // a quarter
  maxProcesses: 4,
  maxProcessesOfSource: 2,
  maxWaitingProcesses: 10_000,
  maxRepositories: 10_000,
  silenceTimeoutMs: 20_000,
  updateTimeoutMs: 120_000,
  maxCpuSeconds: 40, // the largest commit takes eight
  maxMemoryBytes: 64 << 20, // 100,000 files take half of it
  renewAfterFetches: 1000,
  maxBackoffMs: 60_000, // doc/reference/tunnel-protocol.md 2.9
  sizeCheckMs: 250,
  keepReplacedMs: 60_000,
}

/** Repositories that git reads from bare mirrors on the disk. Agents of one repository share a mirror and its polls. */
export function gitRepositories(
  components: {
    readonly addresses: RepositoryAddresses
    /** the branches that peers poll; absent: this replica is alone */
    readonly elsewhere?: Pick<PolledElsewhere, 'pollsHere'>
    readonly log: Logger
    readonly clock?: Clock
    readonly random?: () => number
  },
  givenOptions: GitRepositoriesOptions,
): WatchedRepositories<RepositoryAddress> {
  const options = { ...defaults, ...givenOptions }
  const periodOf = (address: RepositoryAddress) => options.pollMs ?? address.pollMs ?? usualPollMs(address)
  const { addresses, elsewhere, clock = systemClock, random = Math.random } = components
  const log = components.log.child({ mod_name: 'repositories' })
  const maxWaiting = options.maxWaitingProcesses
  const detail = `more than ${maxWaiting} wait for a git process`
  const tooMany = () => new KasError({ code: 'REPOSITORY_FAILED', detail })
  const processes = new Turns<unknown>({
    maxRunning: options.maxProcesses,
    maxRunningOfSource: options.maxProcessesOfSource,
    maxWaiting,
    tooMany,
  })
  // one git process is always left for questions; one project fetches one commit at a time for all its followers
  const fetches = new Turns<unknown>({
    maxRunning: Math.max(1, options.maxProcesses - 1),
    maxRunningOfSource: 1,
    maxWaiting,
    tooMany,
  })
  const disk = new DiskUse()
  /** mirrors that are being removed; a new mirror in the same folder waits for the removal */
  const ending = new Map<string, Promise<void>>()
  const open = (
    key: string,
    address: RepositoryAddress,
    { projectId, agentId, ref, watched }: OpenedFor,
  ): WatchedRepository => {
    // an agent that follows many refs waits for its own processes; a default branch is shared by all
    const source = ref === undefined ? `project ${projectId}` : `agent ${agentId}`
    const counted = ref === undefined ? {} : { disk }
    const turns = { turns: processes, source, fetches: { turns: fetches, source: projectId } }
    const own = { ...counted, ...turns, address: { ...address, ref }, log: log.child({ mirror: key }), clock }
    const { maxCountedBytesOfAgent: maxCountedBytesOfSource, updateTimeoutMs: maxRunMs } = options
    const bounds = { ...options, maxCountedBytesOfSource, maxRunMs }
    const mirror = new GitMirror(own, { ...bounds, folder: join(options.stateDir, key) })
    const poll = async (isNotified: boolean) => {
      await ending.get(key)
      return await mirror.update(isNotified)
    }
    const branch = ref === undefined ? () => mirror.branch : undefined
    // the configuration's periods are for Gitaly, which other clients use too
    const pollMs = () => {
      const newest = addresses.repository(projectId)
      return periodOf(newest && keyOf(newest, ref) === key ? newest : address)
    }
    const { maxBackoffMs } = options
    const minBackoffMs = Math.min(2 * periodOf(address), maxBackoffMs)
    const watch = new BranchWatch(
      { ...watched, poll, branch, pollMs, clock, log: own.log, random },
      { pollMs: periodOf(address), isSpread: true, maxSkipped: Number.POSITIVE_INFINITY, minBackoffMs, maxBackoffMs },
    )
    const end = async (remove: boolean) => {
      await Promise.all([mirror.stop(), watch.stop()])
      await mirror.stop() // removes what the last poll left
      if (remove) await mirror.remove()
    }
    const stop = async ({ remove }: { remove: boolean }) => {
      const ended = end(remove).finally(() => ending.get(key) === ended && ending.delete(key))
      ending.set(key, ended)
      await ended
    }
    return { watch, tree: new GitTree(mirror), file: (...args) => mirror.file(...args), stop }
  }
  const absence = ({ project }: Reading) => `project ${project.path} has no git repository in the directory`
  const polls =
    elsewhere && (({ isFollowedHere, ...branch }: FollowedBranch) => elsewhere.pollsHere(branch, isFollowedHere))
  const { maxRepositories } = options
  return new WatchedRepositories({ addresses, keyOf, open, polls, clock }, { maxRepositories, absence })
}

/** Names one mirror per URL and set of credentials: no reader sees what another's credentials fetched. */
function keyOf({ url, credentialsFile = '', defaultBranch = '' }: RepositoryAddress, ref?: string): string {
  return createHash('sha256')
    .update(JSON.stringify([url, credentialsFile, defaultBranch, ref]))
    .digest('hex')
    .slice(0, 32)
}
