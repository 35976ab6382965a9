import { type KubernetesObject, namespaceOf } from '../../../../kubernetes/object.ts'
import type { Clock } from '../../../../lib/clock.ts'
import type { ListTrouble } from '../../../health/kas/around.ts'
import type { Finding } from '../../../health/kas/finding.ts'
import { findingsOf } from '../../../health/kas/findings.ts'
import { goesOnMs } from '../../../health/kas/onset.ts'
import { type Opinion, opinionOf, opinionWith, type RuleVerdicts } from '../../../health/kas/opinion.ts'
import { ownPartsOf } from '../projection/parts.ts'
import { DueVerdicts } from './due-verdicts.ts'
import { Evidences, type Subject } from './evidence.ts'
import { dueOf, isSameJudgement, isWell, type Judgement, judgementOf, overdue, type Seen, timed } from './judgement.ts'
import { JudgingDependencies, type Read, reads } from './judging-dependencies.ts'
import { JudgingWorld } from './judging-world.ts'
import { KeptTexts } from './kept-texts.ts'
import { PodEnds } from './pod-ends.ts'
import type { ObjectRecord, ReadonlyRecords, RecordChange } from './record.ts'
import type { TimeSlices } from './time-slices.ts'

/** Interval at which evidence that no longer counts is removed. ms */
const expireMs = 60_000

export interface FindingsComponents {
  /** ms since 1970 */
  readonly clock: Clock
  readonly turns: TimeSlices
  readonly records: ReadonlyRecords
  /** true if all objects of a kind (`group/Kind`) are known */
  readonly isLive: (kind: string) => boolean
  /** reason why a kind is set aside; undefined: it is not */
  readonly listTroubleOf: (kind: string) => ListTrouble | undefined
  /** true once all objects from the beginning are known: what agentk finds later begins when it is found */
  readonly isSettled: () => boolean
  /** called when an object was judged again, because of other objects or of time alone */
  readonly onJudged: (uid: string, judged: JudgementChange) => void
}

export interface JudgementChange {
  readonly before: Judgement | undefined
  readonly after: Judgement | undefined
}

/** State of an object that is not well, or whose judgement reads other objects. */
interface Entry {
  judgement: Judgement | undefined
  /** opinion on the object if nothing is found */
  readonly bare: Opinion
  seen: Seen
}

/** Judgements to repeat in one namespace. */
interface Waiting {
  readonly uids: Set<string>
  /** reads whose readers are to be judged again, each once; true: because lists have ended */
  readonly reads: Map<Read, boolean>
  /** undefined: no work has begun */
  cancel: (() => void) | undefined
}

const nothingSeen: Seen = []

/** Results for objects that are well, by the source of the opinion. */
const unjudgedBy = {
  users: { by: 'users', judged: undefined },
  rules: { by: 'rules', judged: undefined },
  nobody: { by: 'nobody', judged: undefined },
} as const

/**
 * Findings why objects are not well, beside their records. For a healthy object nothing is kept, unless its judgement
 * reads other objects, as that of a Service reads EndpointSlices. When an object changes, all objects whose judgement
 * has read it are judged again, in time slices.
 */
export class Findings {
  readonly evidence: Evidences
  readonly #components: FindingsComponents
  readonly #entries = new Map<string, Entry>()
  /** JSON of the fields by which objects are judged */
  readonly #texts = new KeptTexts()
  readonly #ends = new PodEnds()
  readonly #dependencies = new JudgingDependencies()
  readonly #world: JudgingWorld
  readonly #due: DueVerdicts<undefined>
  /** time of the current judgement, for its rules and its memory. ms since 1970 */
  #now = 0
  /** judgements to repeat, by namespace: each namespace has its turns */
  readonly #waiting = new Map<string, Waiting>()
  /** uids to judge again because lists have ended: their findings were there before */
  readonly #byLists = new Set<string>()
  #cancelExpiry: (() => void) | undefined

  constructor(components: FindingsComponents) {
    const { clock, records, isLive, listTroubleOf } = components
    this.#components = components
    const now = () => clock.now()
    this.evidence = new Evidences({ now, onChange: (subject) => this.#evidenceChanged(subject) })
    this.#world = new JudgingWorld({
      records,
      now: () => this.#now,
      evidence: this.evidence,
      ends: this.#ends,
      isLive,
      listTroubleOf,
    })
    this.#due = new DueVerdicts<undefined>(clock, (uid) => this.#judgeLater(uid))
  }

  /** Number of objects of which anything is kept. */
  get size(): number {
    return this.#entries.size
  }

  get(uid: string): Judgement | undefined {
    return this.#entries.get(uid)?.judgement
  }

  /** Returns the fields by which an object is judged; undefined: none are kept. */
  keptOf(uid: string): KubernetesObject | undefined {
    const text = this.#texts.get(uid)
    return text === '' ? undefined : JSON.parse(text)
  }

  stop(): void {
    this.#due.stop()
    for (const { cancel } of this.#waiting.values()) cancel?.()
    this.#cancelExpiry?.()
  }

  /**
   * Judges an object that passes.
   *
   * @param object - with its apiVersion and kind
   * @param isFollowed - the object was there before, or its kind is live: a finding begins now
   */
  pass(
    { uid, kind, object }: { readonly uid: string; readonly kind: string; readonly object: KubernetesObject },
    verdicts: RuleVerdicts,
    isFollowed: boolean,
  ): { readonly by: Opinion['by']; readonly judged: JudgementChange | undefined } {
    const now = this.#begin()
    if (kind === 'Pod') this.#ends.see(object, now)
    const bare = opinionOf(object, undefined, verdicts, now)
    const found = this.#find(object)
    const before = this.#entries.get(uid)
    if (!before && found.length === 0 && this.#world.noted.size === 0 && isWell(bare)) return unjudgedBy[bare.by]
    const judged = judgementOf(found, bare, (one) => opinionOf(object, one, verdicts, now))
    const { judgement, seen } = timed(judged, before?.seen ?? nothingSeen, { now, isLive: isFollowed })
    const isReading = this.#dependencies.set(uid, this.#world.noted)
    if (!judgement && !isReading && seen.length === 0) this.forget(uid)
    else {
      const text = judgement || isReading ? JSON.stringify(ownPartsOf(kind, object)) : ''
      this.#texts.set(uid, namespaceOf(object), text)
      this.#set(uid, { judgement, bare, seen })
    }
    return { by: bare.by, judged: differenceOf(before?.judgement, judgement) }
  }

  /** @returns the judgement of the object before */
  forget(uid: string): Judgement | undefined {
    const before = this.#entries.get(uid)
    if (!before) return undefined
    this.#entries.delete(uid)
    this.#texts.delete(uid)
    this.#dependencies.delete(uid)
    this.#due.delete(uid)
    this.#byLists.delete(uid)
    return before.judgement
  }

  /** Lets all objects be judged again whose judgement has read what has changed, in time slices. */
  change(change: RecordChange): void {
    const { namespace, kind } = (change.after ?? change.before) as ObjectRecord
    if (kind.key === 'Node') this.#world.nodesChanged()
    for (const read of this.#dependencies.changedBy(change)) {
      const { reads } = this.#waitingOf(namespace)
      reads.set(read, reads.get(read) === true || !this.#components.isSettled())
      this.#work(namespace)
    }
  }

  /** Called when a kind becomes fully known, or is no longer, or cannot be listed for another reason. */
  liveChanged(kind: string): void {
    for (const uid of this.#dependencies.of(reads.live(kind))) this.#judgeLater(uid, true)
  }

  #begin(): number {
    this.#now = this.#components.clock.now()
    return this.#now
  }

  #find(object: KubernetesObject): readonly Finding[] {
    this.#world.noted.clear()
    this.#world.forget()
    return findingsOf(object, this.#world)
  }

  #set(uid: string, entry: Entry): void {
    this.#entries.set(uid, entry)
    const due = entry.judgement ? dueOf(entry.judgement) : this.#restEnd(entry)
    if (due === undefined) this.#due.delete(uid)
    else this.#due.set(uid, due, undefined)
  }

  /** Time at which the memory of a healthy object is removed; undefined: there is none. */
  #restEnd({ seen }: Entry): number | undefined {
    return seen.length > 0 ? this.#components.clock.now() + goesOnMs : undefined
  }

  #evidenceChanged({ kind, namespace, name, uid }: Subject): void {
    this.#cancelExpiry ??= this.#components.clock.after(expireMs, () => this.#expire())
    const record = this.#components.records.named(kind, namespace, name)
    if (record && (uid === '' || uid === record.uid) && this.#entries.has(record.uid)) this.#judgeLater(record.uid)
    // its StatefulSet is judged by earlier Pods of the same name, too
    if (record?.owner?.kind === 'apps/StatefulSet' && this.#entries.has(record.owner.uid))
      this.#judgeLater(record.owner.uid)
  }

  #expire(): void {
    this.#cancelExpiry = undefined
    this.evidence.expire()
    if (this.evidence.size > 0) this.#cancelExpiry = this.#components.clock.after(expireMs, () => this.#expire())
  }

  #judgeLater(uid: string, isByLists = !this.#components.isSettled()): void {
    const namespace = this.#components.records.get(uid)?.namespace
    if (namespace === undefined) return
    if (isByLists) this.#byLists.add(uid)
    this.#waitingOf(namespace).uids.add(uid)
    this.#work(namespace)
  }

  #waitingOf(namespace: string): Waiting {
    const known = this.#waiting.get(namespace)
    if (known) return known
    const waiting: Waiting = { uids: new Set(), reads: new Map(), cancel: undefined }
    this.#waiting.set(namespace, waiting)
    return waiting
  }

  #work(namespace: string): void {
    const waiting = this.#waitingOf(namespace)
    if (waiting.cancel) return
    waiting.cancel = () => undefined
    const step = () => {
      const [uid] = waiting.uids
      const [read] = waiting.reads
      if (uid !== undefined) {
        waiting.uids.delete(uid)
        this.#judgeAnew(uid)
      } else if (read) {
        waiting.reads.delete(read[0])
        for (const reader of this.#dependencies.of(read[0])) this.#judgeLater(reader, read[1])
      }
      return waiting.uids.size + waiting.reads.size > 0
    }
    const done = () => this.#waiting.delete(namespace)
    const cancel = this.#components.turns.run(`findings of ${namespace}`, step, done, { areLong: true })
    if (this.#waiting.get(namespace) === waiting) waiting.cancel = cancel
  }

  #judgeAnew(uid: string): void {
    const isLive = !this.#byLists.delete(uid)
    const entry = this.#entries.get(uid)
    const record = this.#components.records.get(uid)
    if (!entry || !record) return
    const now = this.#begin()
    const object = this.keptOf(uid)
    const found = object ? this.#find(object) : undefined
    const byRule = found && judgementOf(found, entry.bare, (one) => opinionWith(one))
    const judged = found ? byRule : entry.judgement && overdue(entry.judgement, entry.bare, now)
    const { judgement, seen } = timed(judged, entry.seen, { now, isLive })
    const isReading = object ? this.#dependencies.set(uid, this.#world.noted) : false
    const before = entry.judgement
    if (!judgement && !isReading && isRested(seen, now)) this.forget(uid)
    else this.#set(uid, { ...entry, judgement, seen })
    const difference = differenceOf(before, judgement)
    if (difference) this.#components.onJudged(uid, difference)
  }
}

const isRested = (seen: Seen, now: number) =>
  seen.every(({ onset }) => onset.well !== undefined && now - onset.well >= goesOnMs)

function differenceOf(before: Judgement | undefined, after: Judgement | undefined): JudgementChange | undefined {
  return isSameJudgement(before, after) ? undefined : { before, after }
}
