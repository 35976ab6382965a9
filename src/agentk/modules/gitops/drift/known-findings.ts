import type { Clock } from '../../../../lib/clock.ts'
import type { Finding } from '../finding.ts'
import type { InventoryEntry, RecordedDrift } from '../round.ts'
import type { SourceOptions } from '../source-options.ts'
import { type Decision, decide, deletedAfterMs } from './drift-policy.ts'

/** Pause between rounds that only record since when objects drift. ms */
const recordMs = 60_000
/** Pause between rounds that record deletions: the next leader makes these objects again if they are not recorded. ms */
const recordDeletedMs = deletedAfterMs

export interface KnownFindingsComponents {
  /** requests a round of the source */
  readonly requestRound: () => void
  /** called when `all` differs */
  readonly onChange: () => void
  /** ms since the epoch */
  readonly clock: Clock
}

/** A finding with what follows from it. */
export interface KnownFinding {
  readonly finding: Finding
  readonly decision: Decision
}

/** State of a source after a round. */
export interface Left {
  /** by `keyText` */
  readonly entries: ReadonlyMap<string, InventoryEntry>
  readonly isPaused: boolean
}

/** Findings about one source's objects, each with its decision. It requests the round in which the next one is due. */
export class KnownFindings {
  readonly #components: KnownFindingsComponents
  readonly #options: Pick<SourceOptions, 'drift'>
  readonly #signal: AbortSignal
  /** by `keyText` */
  readonly #known = new Map<string, KnownFinding>()
  /** objects that a round was to write, and that still differ: the queue of rounds tries them again */
  readonly #attempted = new Set<string>()
  /** by `keyText`: as the last round has left them */
  #entries: ReadonlyMap<string, InventoryEntry> = new Map()
  #isPaused = false
  #isSettling = true
  #isInRound = false
  #cancelDue: (() => void) | undefined
  #recordedAt = Number.NEGATIVE_INFINITY

  constructor(components: KnownFindingsComponents, options: Pick<SourceOptions, 'drift'>, signal: AbortSignal) {
    this.#components = components
    this.#options = options
    this.#signal = signal
    signal.addEventListener('abort', () => this.#cancelDue?.(), { once: true })
  }

  /** Findings by `keyText`. */
  get all(): ReadonlyMap<string, KnownFinding> {
    return this.#known
  }

  find(text: string): Finding | undefined {
    return this.#known.get(text)?.finding
  }

  /** No call of an earlier leader can arrive any more. */
  settled(): void {
    this.#isSettling = false
    this.#decideAgain()
  }

  /** A round begins: until it ends, no other is requested. */
  roundBegins(): void {
    this.#isInRound = true
  }

  /** The round has ended. Findings about objects that have left are void. @param left - undefined: it has failed */
  roundEnds(left: Left | undefined): void {
    this.#isInRound = false
    if (!left) return
    this.#entries = left.entries
    this.#isPaused = left.isPaused
    for (const text of this.#known.keys()) if (!left.entries.has(text)) this.#known.delete(text)
    for (const text of this.#attempted) if (!this.#known.has(text)) this.#attempted.delete(text)
    this.#decideAgain()
  }

  /** Takes a finding, and returns what follows from it. @param recorded - as the inventory has it now */
  note(text: string, finding: Finding, recorded: RecordedDrift | undefined): Decision {
    if (this.find(text)?.resourceVersion !== finding.resourceVersion) this.#attempted.delete(text)
    const decision = this.#decisionOf(finding, recorded)
    this.#known.set(text, { finding, decision })
    this.#changed()
    return decision
  }

  /** A round writes the object: if that fails, the queue of rounds tries it again. */
  attempt(text: string): void {
    this.#attempted.add(text)
  }

  /** The object is as in Git. */
  forget(text: string): void {
    this.#attempted.delete(text)
    if (this.#known.delete(text)) this.#changed()
  }

  #decisionOf(finding: Finding, recorded: RecordedDrift | undefined): Decision {
    const { drift: policy } = this.#options
    const [isSettling, isPaused] = [this.#isSettling, this.#isPaused]
    return decide(finding, { policy, recorded, isSettling, isPaused, now: this.#components.clock.now() })
  }

  #decideAgain(): void {
    for (const [text, { finding }] of this.#known) {
      this.#known.set(text, { finding, decision: this.#decisionOf(finding, this.#entries.get(text)?.drift) })
    }
    this.#changed()
  }

  #changed(): void {
    this.#schedule()
    this.#components.onChange()
  }

  /** Requests a round for the next correction that is due, and to record since when objects drift. */
  #schedule(): void {
    this.#cancelDue?.()
    this.#cancelDue = undefined
    if (this.#isInRound) return // its end schedules
    const { clock, requestRound } = this.#components
    const now = clock.now()
    const times = [...this.#known].flatMap(([text, { finding, decision }]) => {
      if (decision.kind === 'write') return this.#attempted.has(text) ? [] : [now]
      const recordAt = this.#isRecorded(text, finding)
        ? []
        : [this.#recordedAt + (finding.isDeleted ? recordDeletedMs : recordMs)]
      if (decision.kind === 'later') return [decision.at, ...recordAt]
      const { because } = decision
      if (because.kind === 'hold') return [because.until]
      return because.kind === 'mode' && finding.isDeleted ? recordAt : []
    })
    if (times.length === 0 || this.#signal.aborted) return
    this.#cancelDue = clock.after(Math.max(0, Math.ceil(Math.min(...times) - now)), () => {
      this.#recordedAt = clock.now()
      requestRound()
    })
  }

  /** True if the time since which it drifts is known without this pod: managedFields or the inventory have it. */
  #isRecorded(text: string, { by, since, isDeleted }: Finding): boolean {
    const recorded = this.#entries.get(text)?.drift
    return by?.time === since || (recorded?.since === since && (recorded.isDeleted ?? false) === isDeleted)
  }
}
