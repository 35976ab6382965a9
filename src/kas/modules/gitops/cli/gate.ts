import { printable } from '../../../../lib/printable.ts'
import { healthCell, healthLine, worstWord } from './health-text.ts'
import type { ShownSource, ShownState } from './state.ts'
import { nameOf } from './status-text.ts'

/** Exit codes of `kas gitops status` with `--commit` or `--wait` (doc/guide/gate.md). */
export const gateCodes = { synced: 0, refused: 1, progressing: 3, failing: 4, unknown: 5, approval: 6 } as const

export interface GateQuestion {
  /** the id of a commit, or its beginning; undefined: the commits at the heads */
  readonly commit: string | undefined
  /** name or id of a source; undefined: all */
  readonly source: string | undefined
  /** the objects are to be healthy, too; default false */
  readonly health?: boolean
}

export interface GateVerdict {
  readonly code: number
  /** as a sentence; empty: every source is as required */
  readonly reason: string
  /** A longer wait does not change the verdict. */
  readonly isFinal: boolean
  /** The repositories were polled after the question. */
  readonly isPolled: boolean
}

/** Reasons of NOT_READY that stay until somebody makes a change. */
const lasting: ReadonlySet<unknown> = new Set(['project_not_readable', 'ref_not_found', 'not_served', 'agent_older'])
/** Exit codes, the worst first. */
const order = [1, 6, 4, 5, 3, 0]
const shortLength = 8
/** A repository is searched for a whole id alone: a shorter one may be the name of a branch. */
const fullId = /^(?:[0-9a-f]{40}|[0-9a-f]{64})$/

/** Judges states one after another. It remembers the sources that had the commit at their head, or before it. */
export class Gate {
  readonly #question: GateQuestion
  /** by the id of a source in which the commit was found: its whole id. A ref may be moved back meanwhile */
  readonly #found = new Map<string, string>()
  #isSearched = false

  constructor(question: GateQuestion) {
    this.#question = question
  }

  /** The commit, once it was at no head: newer commits may have followed it. Undefined: no search is needed. */
  get searched(): string | undefined {
    return this.#isSearched ? this.#wholeId : undefined
  }

  /** The whole id of the commit, if it is known: a part of it may be the name of a branch. */
  get #wholeId(): string | undefined {
    const { commit } = this.#question
    if (commit !== undefined && fullId.test(commit)) return commit
    const [id] = this.#found.values()
    return id
  }

  /** @param youngMs - a poll of at most this age began after the question */
  judge(state: ShownState, youngMs: number): GateVerdict {
    if (state.agent === 'stock')
      return final(gateCodes.unknown, 'the agent is GitLab’s own: it reports no status of its sources')
    if (state.agent === 'absent') {
      return waits(gateCodes.unknown, state.away?.text ?? 'no pod of the agent is connected', false)
    }
    const isYoung = (polled: Polled | undefined) => polled !== undefined && polled.age_ms <= youngMs
    const ofFile = fileVerdict(state, isYoung)
    if (ofFile) return ofFile
    const chosen = this.#chosen(state)
    if (chosen.length === 0) return final(gateCodes.unknown, this.#noSource(state))
    const unpolled = chosen.find((source) => !isLasting(source) && !isYoung(source.polled))
    if (unpolled)
      return waits(gateCodes.unknown, `the repository of ${nameOf(unpolled)} has not been polled yet`, false)
    return this.#judgeSources(chosen, state.commit)
  }

  /** Returns a sentence about each source of the question that writes nothing until somebody changes that. */
  pauseTexts(state: ShownState): readonly string[] {
    const { commit } = this.#question
    const isConcerned = (source: ShownSource) =>
      commit === undefined || this.#found.has(source.source) || hasCommit(source, commit)
    return this.#chosen(state)
      .filter(isConcerned)
      .flatMap((source) => pauseText(source) ?? [])
  }

  #chosen({ sources }: ShownState): readonly ShownSource[] {
    const { source: wanted } = this.#question
    const configured = sources.filter(({ phase }) => phase !== 'KEPT' && phase !== 'REMOVING')
    if (wanted === undefined) return configured
    return configured.filter((each) => [each.source, each.name, nameOf(each)].includes(wanted))
  }

  #noSource({ sources }: ShownState): string {
    const names = sources.map(nameOf).join(', ') || 'none'
    const { source } = this.#question
    return source === undefined ? 'the configuration names no source' : `no source ${source}; there are: ${names}`
  }

  /** @param searched - the commit that heads were searched for */
  #judgeSources(chosen: readonly ShownSource[], searched: string | undefined): GateVerdict {
    const { commit } = this.#question
    for (const each of commit === undefined ? [] : chosen) this.#note(each, commit ?? '', searched)
    const isMoved = (source: ShownSource) => this.#found.has(source.source) && !isAtHead(source, commit ?? '')
    if (commit !== undefined && chosen.some(isMoved)) this.#isSearched = this.#wholeId !== undefined
    const isAsked = searched !== undefined && searched === this.searched
    const isOpen = ({ polled }: ShownSource) => Boolean(polled?.commit) && polled?.contains === undefined
    const open = isAsked && chosen.find((source) => isOpen(source) && !isAtHead(source, commit ?? ''))
    if (open) return waits(gateCodes.unknown, `${nameOf(open)}: is ${short(searched)} in its history?`, false)
    const isConcerned = (source: ShownSource) => isAtHead(source, commit ?? '') || (isAsked && isContained(source))
    const concerned = commit === undefined ? chosen : chosen.filter(isConcerned)
    const left = chosen.find((source) => isMoved(source) && !isConcerned(source))
    if (left) return isAsked ? discarded(left, commit ?? '') : notSearched(left, commit ?? '')
    if (concerned.length === 0) {
      const mayBeBefore = this.#wholeId !== undefined && !this.#isSearched
      this.#isSearched ||= mayBeBefore
      return notAtHead(chosen, commit ?? '', !mayBeBefore)
    }
    const verdicts = concerned.map((source) => this.#sourceVerdict(source))
    const [worst] = verdicts.toSorted((one, other) => rank(one) - rank(other))
    const later = concerned.find(({ polled }) => commit !== undefined && !polled?.commit.startsWith(commit))
    if (worst?.code !== gateCodes.synced || !later) return worst ?? final(gateCodes.unknown, 'nothing is known')
    const text = `${nameOf(later)}: ${short(later.polled?.commit ?? '')} came after ${short(commit ?? '')}, and is in the cluster`
    return final(gateCodes.synced, text)
  }

  #note(source: ShownSource, commit: string, searched: string | undefined): void {
    const { polled } = source
    if (isAtHead(source, commit)) this.#found.set(source.source, polled?.commit ?? '')
    else if (searched !== undefined && isContained(source)) this.#found.set(source.source, searched)
  }

  #sourceVerdict(source: ShownSource): GateVerdict {
    const verdict = sourceVerdict(source)
    if (!this.#question.health) return verdict
    if (verdict.code === gateCodes.progressing && isUnderWay(source) && isDegraded(source))
      return waits(gateCodes.failing, healthText(source))
    if (verdict.code === gateCodes.failing && source.health !== undefined) return failingVerdict(source, verdict)
    return verdict.code === gateCodes.synced ? (healthVerdict(source) ?? verdict) : verdict
  }
}

/** Rounds that fail one after the other until a failure counts: the first may have met what passes by itself. */
const leastFailedRounds = 2

/** Judges a source whose round has failed: it is tried again by itself. */
function failingVerdict(source: ShownSource, verdict: GateVerdict): GateVerdict {
  const { failed_rounds: rounds = 0 } = source
  return rounds < leastFailedRounds ? waits(gateCodes.progressing, verdict.reason) : final(verdict.code, verdict.reason)
}

const phasesOfRound: ReadonlySet<string> = new Set(['APPLYING', 'PRUNING', 'WAITING_FOR_OTHERS'])

/** True in a round for the head: it may wait for the health of an object, and those of the head alone count. */
const isUnderWay = ({ phase, wanted, polled, is_current: isCurrent }: ShownSource) =>
  phasesOfRound.has(phase) && wanted === polled?.commit && isCurrent !== false

const isDegraded = ({ health }: ShownSource) => health !== undefined && health.degraded + health.missing > 0

function healthText(source: ShownSource): string {
  const worst = source.unhealthy?.find(({ word }) => word === worstWord(source.health))
  return `${nameOf(source)}: ${worst ? healthLine(worst) : healthCell(source)}`
}

/** Judges the health of a source whose commit is in the cluster. @returns undefined: it is healthy */
function healthVerdict(source: ShownSource): GateVerdict | undefined {
  const { health } = source
  const name = nameOf(source)
  if (!health) return final(gateCodes.unknown, `${name}: this agentk does not judge the health of objects: update it`)
  const text = healthText(source)
  if (isDegraded(source)) return waits(gateCodes.failing, text)
  if (health.unread > 0)
    return waits(gateCodes.progressing, `${name}: the health of ${health.unread} objects is being read`)
  if (health.progressing > 0) return waits(gateCodes.progressing, text)
  return health.unknown > 0 ? waits(gateCodes.unknown, text) : undefined
}

type Polled = NonNullable<ShownSource['polled']>

const rank = ({ code }: GateVerdict) => order.indexOf(code)
const final = (code: number, reason: string): GateVerdict => ({ code, reason, isFinal: true, isPolled: true })
const waits = (code: number, reason: string, isPolled = true): GateVerdict => ({
  code,
  reason,
  isFinal: false,
  isPolled,
})
const isLasting = ({ phase, reason }: ShownSource) => phase === 'NOT_READY' && lasting.has(reason)
const isAtHead = ({ polled }: ShownSource, commit: string) => polled?.commit.startsWith(commit) === true
const isContained = ({ polled }: ShownSource) => polled?.contains === true
const hasCommit = (source: ShownSource, commit: string) => isAtHead(source, commit) || isContained(source)
const short = (commit: string) => printable(commit.slice(0, shortLength))

/**
 * Judges the agent's file, whose sources may change with the commit.
 *
 * @returns undefined: it was read after the question
 */
function fileVerdict(
  { configuration, cut }: ShownState,
  isYoung: (polled: Polled | undefined) => boolean,
): GateVerdict | undefined {
  const { polled, commit = '', problem, phase } = configuration ?? {}
  if (!polled || !isYoung(polled)) {
    return waits(gateCodes.unknown, 'the repository of the agent’s file has not been polled yet', false)
  }
  if (problem && phase === 'REFUSED') return final(gateCodes.refused, `the agent’s file: ${problem}`)
  if (problem) return waits(gateCodes.unknown, `the agent’s file: ${problem}`)
  if (polled.commit === '') return waits(gateCodes.unknown, 'the repository of the agent’s file cannot be read')
  if (polled.commit !== commit) return waits(gateCodes.progressing, 'the agent’s file is being read')
  return cut ? waits(gateCodes.unknown, 'the agent has more sources than kas keeps: some are not shown') : undefined
}

/** @param isPolled - no search of the heads follows */
function notAtHead(chosen: readonly ShownSource[], commit: string, isPolled: boolean): GateVerdict {
  const heads = chosen.map((source) => `${nameOf(source)}: ${short(source.polled?.commit ?? '') || 'nothing'}`)
  return waits(
    gateCodes.unknown,
    `commit ${short(commit)} is in no source (at their heads: ${heads.join(', ')})`,
    isPolled,
  )
}

/** Judges a source whose ref was moved back, or pushed by force: nothing that it reports is about the commit. */
function discarded(source: ShownSource, commit: string): GateVerdict {
  const head = short(source.polled?.commit ?? '') || 'nothing'
  return waits(
    gateCodes.unknown,
    `${nameOf(source)}: commit ${short(commit)} was at its head, and is not found in its history now (at its head: ${head})`,
  )
}

/** Judges a source whose head is another one now, before kas was asked for the history of that. */
function notSearched(source: ShownSource, commit: string): GateVerdict {
  return waits(gateCodes.unknown, `${nameOf(source)}: is ${short(commit)} in its history?`, false)
}

/** Judges one source at the head that a poll after the question found. */
function sourceVerdict(source: ShownSource): GateVerdict {
  const { polled, phase, commit, wanted, stale, plan, counts, problem } = source
  const name = nameOf(source)
  const head = polled?.commit ?? ''
  const text = pauseText(source) ?? (problem ? `${name}: ${phase}: ${problem}` : `${name}: ${phase}`)
  if (isLasting(source)) return final(gateCodes.unknown, text)
  if (stale) return waits(gateCodes.unknown, `${name}: the pod that reported it is gone: what it said may be old`)
  if (head === '') return waits(gateCodes.unknown, `${name}: nothing is at the head of its ref`)
  if (phase === 'NOT_READY') return waits(gateCodes.unknown, text)
  if (wanted !== head) return waits(gateCodes.progressing, `${name}: agentk has not begun with commit ${short(head)}`)
  if (source.is_current === false) {
    return waits(gateCodes.progressing, `${name}: agentk has not taken its new configuration`)
  }
  if (phase === 'REFUSED') return final(gateCodes.refused, text)
  if (phase === 'APPROVAL' || plan) return final(gateCodes.approval, `${name}: waits for approval`)
  if (phase === 'FAILING' || counts?.failed) return waits(gateCodes.failing, text)
  if (phase === 'SYNCED' && commit === head && !counts?.waiting) return final(gateCodes.synced, driftReason(source))
  return waits(gateCodes.progressing, text)
}

/** Form of an id that people can run in a command as it is. */
const commandWord = /^[\da-z-]+$/

/** Returns a sentence about a source that writes nothing, with what ends that; undefined: it writes, or is not known. */
function pauseText(source: ShownSource): string | undefined {
  const { phase, problem, stale, source: id } = source
  if (phase !== 'PAUSED' || stale) return undefined
  const name = nameOf(source)
  if (problem.startsWith('dry_run_strategy:')) {
    return `${name} only tries its commits out, and applies none: take dry_run_strategy out of its configuration`
  }
  const word = commandWord.test(id) ? id : 'SOURCE'
  return `${name} is paused, and applies no commit: kas gitops resume ${word} ends the pause`
}

/** Says what has changed in the cluster since the commit was applied; empty: nothing. */
function driftReason(source: ShownSource): string {
  const { drifted = 0, not_compared: notCompared = 0 } = source.counts ?? {}
  const differ = drifted > 0 ? [`${drifted} of its objects were changed in the cluster since`] : []
  const unknown = notCompared > 0 ? [`${notCompared} of its objects cannot be compared`] : []
  const all = [...differ, ...unknown].join(', ')
  return all === '' ? '' : `${nameOf(source)}: applied; ${all}`
}
