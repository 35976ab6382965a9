import { type FollowedCommit, isLasting, patienceMs } from './followed-commits.ts'
import type { NamedSources } from './named-sources.ts'

/** Phases that claim success, or that nothing has come yet; kas corrects only these. */
const corrected: ReadonlySet<unknown> = new Set(['SYNCED', 'PAUSED', 'WAITING', 'KEPT'])

const aliveNext = 'it goes on by itself; see whether the pod of agentk that leads is alive'

/** Knowledge of kas about a source, independent of its pod's report. */
export interface KnownOfSource {
  /** commits of its project and ref, which several sources may share; from several replicas while the agent moves */
  readonly commits: readonly FollowedCommit[]
  /** the configuration that the agent was sent; undefined: no replica follows it */
  readonly configuration: NamedSources | undefined
  /** digest of the source in the configuration; undefined: the configuration does not have it; empty: unknown */
  readonly digest: string | undefined
}

/** Returns fields that replace those of the pod's report. */
export function correctedRow(known: KnownOfSource, { phase, wanted, digest }: Record<string, unknown>): object {
  if (!corrected.has(phase)) return {}
  return notOfConfiguration(known, { phase, digest }) ?? (phase === 'KEPT' ? {} : notOfCommit(known.commits, wanted))
}

function notOfConfiguration(
  { configuration, digest: newest }: KnownOfSource,
  row: { readonly phase: unknown; readonly digest: unknown },
): object | undefined {
  const { unchangedMs = 0 } = configuration ?? {}
  if (unchangedMs < patienceMs || newest === '') return undefined
  const isCurrent = row.phase === 'KEPT' ? newest === undefined : row.digest === '' || row.digest === newest
  if (isCurrent) return undefined
  const what = newest === undefined ? 'has it no longer' : 'says something else of it'
  const problem = `the configuration ${what}, and agentk has said nothing of that for ${secondsOf(unchangedMs)} s`
  return { phase: 'NOT_READY', reason: 'configuration_not_taken', problem, next: aliveNext }
}

function notOfCommit(all: readonly FollowedCommit[], wanted: unknown): object {
  // after this agent was sent a commit here, it may follow the same files at another replica
  const known = all.filter((one) => !one.ended || !all.some(({ ageMs }) => ageMs < one.ageMs))
  const lasting = known.filter(isLasting).toSorted((one, other) => one.ageMs - other.ageMs)
  const failing = lasting.find(({ problem }) => problem !== '')
  if (failing) {
    const reads = all.flatMap(({ polled }) => polled?.readMs ?? [])
    const since = reads.length > 0 ? `${secondsOf(Math.min(...reads))} s` : `${secondsOf(failing.ageMs)} s or longer`
    const text = `the repository could not be read for ${since}: ${failing.problem}`
    return { phase: 'NOT_READY', reason: 'repository_not_read', problem: text, next: 'it is asked again by itself' }
  }
  const [newest] = lasting
  const isOnItsWay = lasting.length < known.length
  if (!newest || isOnItsWay || lasting.some(({ commit }) => commit === wanted)) return {}
  const text = `agentk has said nothing of commit ${newest.commit.slice(0, 8)} for ${secondsOf(newest.ageMs)} s`
  return { phase: 'NOT_READY', reason: 'files_not_taken', wanted: newest.commit, problem: text, next: aliveNext }
}

function secondsOf(ms: number): number {
  return Math.round(ms / 1000)
}
