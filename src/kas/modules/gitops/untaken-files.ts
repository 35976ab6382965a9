import type { AgentId } from '../../../call/call.ts'
import type { Clock } from '../../../lib/clock.ts'
import type { KasError } from '../../../lib/errors.ts'
import type { UntakenFiles as UntakenMessage } from '../../../proto/gen/replica_gitops_pb.ts'
import type { CommitId } from '../../repositories/repositories.ts'

/** What lasts no longer is told of nobody: a poll that failed once, a commit on its way. ms */
const patienceMs = 8_000
/** An agent that was sent a commit asks for the next one within so long, or is gone. ms */
const maxSentMs = 120_000
/** Of a text. */
const maxProblemLength = 500

/** Files that an agent follows by one stream. */
interface Followed {
  readonly agentId: AgentId
  /** as the agent has asked */
  readonly project: string
  /** `branch main`; empty: the default branch */
  readonly ref: string
  untaken: { readonly since: number; readonly commit: string; readonly problem: string } | undefined
}

/** What agents do not have of the files that they follow here, and why: they cannot know it themselves. */
export class UntakenFiles {
  readonly #clock: Clock
  readonly #agents = new Map<AgentId, Set<Followed>>()
  /** whose streams have ended with all of a commit, and when, oldest first: the next stream shows that the agent has it */
  readonly #sent = new Map<Followed, number>()

  constructor(clock: Clock) {
    this.#clock = clock
  }

  /** A stream of the agent's, until `end`. @param ref - in full: `refs/heads/main` */
  follow(agentId: AgentId, { project, ref }: { readonly project: string; readonly ref: string | undefined }) {
    const followed: Followed = { agentId, project, ref: refText(ref), untaken: undefined }
    this.#forgetOld()
    for (const one of this.#agents.get(agentId) ?? []) {
      if (this.#sent.has(one) && one.project === project && one.ref === followed.ref) this.#forget(one)
    }
    this.#agents.set(agentId, (this.#agents.get(agentId) ?? new Set()).add(followed))
    const untaken = (commit: string, problem: string) => {
      followed.untaken = { since: followed.untaken?.since ?? this.#clock.now(), commit, problem }
    }
    return {
      /** the agent has what was found */
      taken: () => {
        followed.untaken = undefined
      },
      found: (commit: CommitId) => untaken(commit, ''),
      failed: (error: KasError) => untaken(followed.untaken?.commit ?? '', error.message.slice(0, maxProblemLength)),
      /** @param isSent - with all of what was found */
      end: (isSent: boolean) => {
        if (isSent) this.#sent.set(followed, this.#clock.now())
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

  /** What has lasted for a while. */
  of(agentId: AgentId): Pick<UntakenMessage, 'project' | 'ref' | 'commit' | 'problem' | 'ageMs'>[] {
    this.#forgetOld()
    const now = this.#clock.now()
    return [...(this.#agents.get(agentId) ?? [])].flatMap(({ project, ref, untaken }) => {
      const ageMs = Math.round(now - (untaken?.since ?? now))
      return untaken && ageMs >= patienceMs ? [{ project, ref, ageMs, ...untaken }] : []
    })
  }
}

/** What a row says beside what its pod has reported. */
export function untakenRow(
  { commit, problem, ageMs }: Pick<UntakenMessage, 'commit' | 'problem' | 'ageMs'>,
  { phase, wanted }: Record<string, unknown>,
): object {
  if (phase === 'REMOVING' || phase === 'KEPT') return {} // its files are not followed any more
  if (problem === '' && commit === wanted) return {} // it has come meanwhile

  const seconds = Math.round(ageMs / 1000)
  if (problem !== '') {
    const text = `the repository could not be read for ${seconds} s: ${problem}`
    return { phase: 'NOT_READY', reason: 'repository_not_read', problem: text, next: 'it is asked again by itself' }
  }
  const text = `agentk has not taken commit ${commit.slice(0, 8)} for ${seconds} s`
  const next = 'it goes on by itself; see whether the pod of agentk that leads is alive'
  return { phase: 'NOT_READY', reason: 'files_not_taken', wanted: commit, problem: text, next }
}

/** As a row says it: `branch main`. */
function refText(ref: string | undefined): string {
  if (ref === undefined) return ''
  const [, kind, name] = /^refs\/(heads|tags)\/(.*)$/.exec(ref) ?? []
  if (kind === undefined) return `commit ${ref}`
  return `${kind === 'heads' ? 'branch' : 'tag'} ${name}`
}
