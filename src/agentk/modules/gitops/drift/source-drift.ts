import { keyText, type ObjectKey } from '../../../../kubernetes/key.ts'
import type { KubernetesObject } from '../../../../kubernetes/object.ts'
import { errorText } from '../../../../lib/errors.ts'
import type { Logger } from '../../../../lib/log.ts'
import { abortable } from '../../../../lib/signals.ts'
import { isAsApplied } from '../apply/standing.ts'
import type { JudgedObject, Verdict } from '../apply/verdict.ts'
import type { Finding } from '../finding.ts'
import { isAdderOf } from '../live/adders.ts'
import type { ClusterKinds } from '../live/cluster-kinds.ts'
import type { LiveObject } from '../live/live-object.ts'
import type { InventoryEntry } from '../round.ts'
import type { SourceOptions } from '../source-options.ts'
import type { ComparedValues } from './explain-object.ts'
import type { ExplainTurns } from './explain-turns.ts'
import type { Explanation } from './explanation.ts'
import { findingOf } from './found.ts'
import { holdUntil } from './hold.ts'
import type { ComparedManifest, KeptManifests } from './kept-manifests.ts'
import { type KnownFinding, KnownFindings, type KnownFindingsComponents, type Left } from './known-findings.ts'
import { isMoved, referenceOf, unknownReference } from './reference.ts'
import { SharedCheck } from './shared-check.ts'
import { SourceExplanations } from './source-explanations.ts'
import { type Baseline, mayBeScaled, type Suspicion, suspicion } from './suspect.ts'

/** Pause before a round that compares objects whose manifests are not kept. ms */
const buildMs = 10_000
/** Pause before an explanation without an answer is tried again. ms */
const retryMs = 30_000
/** Pause before an object that has left is compared: `kubectl replace --force` makes it again meanwhile. ms */
const leftMs = 500
/**
 * Pause before an object that does not exist is compared once more: if it is made again without the source's label, no
 * watch shows it. ms
 */
const absentMs = 1500
/** Objects that are checked at once, if somebody asks for all: their calls take turns with all others. */
const maxChecks = 16

export interface SourceDriftComponents extends KnownFindingsComponents {
  readonly turns: Pick<ExplainTurns, 'add' | 'leave'>
  readonly kept: Pick<KeptManifests, 'read'>
  /** compares an object with the cluster. @throws the connection's error, or the signal's reason */
  readonly explain: (
    manifest: ComparedManifest,
    of: {
      readonly kinds: ClusterKinds
      readonly entry: InventoryEntry
      /** `scale` explains all that moved: an object that an autoscaler targets is not compared */
      readonly isOnlyScaled?: boolean
    },
    signal: AbortSignal,
  ) => Promise<Explanation>
  /** true if an apply would change the object, by one dry run. @throws as `explain` */
  readonly wouldChange: (
    manifest: ComparedManifest,
    of: { readonly kinds: ClusterKinds; readonly entry: InventoryEntry },
    signal: AbortSignal,
  ) => Promise<boolean>
  /** compares an object as `explain` does, with its values */
  readonly values: (
    manifest: ComparedManifest,
    of: { readonly kinds: ClusterKinds; readonly entry: InventoryEntry },
    signal: AbortSignal,
  ) => Promise<ComparedValues>
  readonly log: Logger
}

/** Result of a round, or of a pause. */
export interface RoundResult extends Left {
  readonly kinds: ClusterKinds
  /** by `keyText`: objects that the round has applied; absent: none */
  readonly applied?: Iterable<string>
}

/** Metadata of an object that were seen during a round. */
interface SeenInRound {
  readonly live: LiveObject
  /** result without the reference, which the round may change; absent: only what `live` has was read */
  readonly found?: Suspicion
}

/** Drift of one source's objects, while it is followed: what differs, by whom, and what follows from it. */
export class SourceDrift {
  readonly #components: SourceDriftComponents
  readonly #options: SourceOptions
  readonly #isAdder: (manager: string) => boolean
  readonly #signal: AbortSignal
  #kinds: ClusterKinds | undefined
  /** by `keyText`: as the last round has left them */
  #entries: ReadonlyMap<string, InventoryEntry> = new Map()
  /** by `keyText`: metadata that were judged or compared last */
  readonly #baselines = new Map<string, Baseline>()
  readonly #findings: KnownFindings
  readonly #explanations: SourceExplanations
  /** objects whose explanation came while a round was writing */
  readonly #outrun = new Set<string>()
  readonly #check = new SharedCheck(() => this.#checkEach())
  /** by `keyText`: metadata of objects that were seen during a round; undefined: they are gone. No round: none */
  #duringRound: Map<string, SeenInRound | undefined> | undefined
  #cancelBuild: (() => void) | undefined

  constructor(components: SourceDriftComponents, options: SourceOptions, signal: AbortSignal) {
    this.#components = components
    this.#options = options
    this.#findings = new KnownFindings(components, options, signal)
    const explain = (text: string, isOnlyScaled: boolean) => this.#explain(text, isOnlyScaled)
    const onLost = () => this.#requestBuild()
    const { turns, clock } = components
    this.#explanations = new SourceExplanations({ turns, explain, onLost, clock }, signal)
    this.#isAdder = isAdderOf(options.drift)
    this.#signal = signal
    signal.addEventListener('abort', () => this.#cancelBuild?.(), { once: true })
  }

  /** Findings by `keyText`. */
  get known(): ReadonlyMap<string, KnownFinding> {
    return this.#findings.all
  }

  /** No call of an earlier leader can arrive any more. */
  settled(): void {
    this.#findings.settled()
    if (this.#options.drift.mode === 'none') this.#baselines.clear() // no watch sends metadata any more
  }

  /** A round begins to write: until it ends, changes are only noted. */
  roundBegins(): void {
    this.#duringRound ??= new Map()
    this.#findings.roundBegins()
  }

  /** The round has ended. @param result - undefined: it has failed, and the inventory is as far as it came */
  roundEnds(result: RoundResult | undefined): void {
    const seen = this.#duringRound
    this.#duringRound = undefined
    if (result) {
      this.#entries = result.entries
      this.#kinds = result.kinds
      for (const text of this.#baselines.keys()) if (!result.entries.has(text)) this.#baselines.delete(text)
      for (const text of result.applied ?? [])
        if (this.#findings.find(text)?.kind === 'drifted') this.#findings.forget(text)
    }
    this.#findings.roundEnds(result)
    for (const [text, one] of seen ?? []) this.#seenInRound(text, one)
    for (const text of this.#outrun) this.#suspect(text)
    this.#outrun.clear()
  }

  /** An object is as it was applied: that ends its drift, and says nothing of what an apply would change. */
  #seenInRound(text: string, seen: SeenInRound | undefined): void {
    const entry = this.#entries.get(text)
    if (!entry?.digest) return
    const { live, found } = seen ?? {}
    if (found && 'baseline' in found) this.#baselines.set(text, found.baseline)
    const hasAdded = found?.kind === 'suspect' // an apply leaves what people's tools have added
    const isAsBefore = live && isAsApplied(entry, live, this.#options.id) && !isMoved(entry, live.generation)
    const known = this.#findings.find(text)
    if (isAsBefore && !hasAdded && (!known || known.kind === 'drifted')) this.#findings.forget(text)
    else this.#suspect(text)
  }

  /** Takes metadata that a watch has sent. @param live - returns them as a round reads them */
  seen(key: ObjectKey, object: KubernetesObject, live: () => LiveObject): void {
    const text = keyText(key)
    if (this.#duringRound) {
      this.#duringRound.set(text, { live: live(), found: this.#suspicion(object) })
      return
    }
    const entry = this.#entries.get(text)
    if (!entry?.digest) return
    const baseline = this.#baselines.get(text)
    const found = this.#suspicion(object, entry, baseline)
    const known = this.#findings.find(text)
    if (known && !known.isDeleted && known.holdUntil !== holdUntil(object)) this.#suspect(text)
    if (!('baseline' in found)) return // nothing moved, or it goes later
    this.#baselines.set(text, found.baseline)
    // a manager may have given up a field that was left to it
    const isIgnoredOther = entry.ignored !== undefined && entry.ignored !== live().ignored
    const hasMoved = !baseline && isMoved(entry, found.baseline.generation)
    if (found.kind === 'suspect' || known || isIgnoredOther || hasMoved)
      this.#suspect(text, { isOnlyScaled: !known && mayBeScaled(found) })
  }

  #suspicion(object: KubernetesObject, entry?: InventoryEntry, baseline?: Baseline): Suspicion {
    const { id, manager } = this.#options
    const reference = entry ? referenceOf(entry, id) : unknownReference(id)
    return suspicion(reference, object, { manager, isAdder: this.#isAdder, baseline })
  }

  /**
   * Takes metadata by which the first round of a term reads an object: later ones are compared with them.
   *
   * @returns true: the object is to be compared, whatever the round finds
   */
  seenFirst(key: ObjectKey, object: KubernetesObject): boolean {
    const found = this.#suspicion(object) // the round compares the rest
    if ('baseline' in found) this.#baselines.set(keyText(key), found.baseline)
    return found.kind === 'suspect'
  }

  /** Takes metadata that were read, where there is no watch. */
  read(key: ObjectKey, live: LiveObject): void {
    const text = keyText(key)
    if (this.#duringRound) {
      this.#duringRound.set(text, { live })
      return
    }
    const entry = this.#entries.get(text)
    if (!entry?.digest || this.#findings.find(text)?.resourceVersion === live.resourceVersion) return
    if (!isAsApplied(entry, live, this.#options.id) || this.#findings.find(text)) this.#suspect(text)
  }

  /** Takes an object that has gone, or has lost the source's label. */
  left(key: ObjectKey): void {
    const text = keyText(key)
    if (this.#duringRound) this.#duringRound.set(text, undefined)
    else if (this.#entries.get(text)?.digest && !this.#findings.find(text)?.isDeleted)
      this.#explanations.requestLater(text, leftMs)
  }

  /**
   * Checks one object, by `keyText`, whatever its metadata say. An error leaves it to the next scan.
   *
   * @returns true: it was compared
   */
  async check(text: string): Promise<boolean> {
    const { kept, wouldChange, log } = this.#components
    const entry = this.#entries.get(text)
    if (!entry?.digest || this.#duringRound || !this.#kinds) return false
    try {
      const manifest = await kept.read(text)
      if (manifest?.digest !== entry.digest) return false
      const of = { kinds: this.#kinds, entry }
      if (!this.#findings.find(text) && !(await wouldChange(manifest, of, this.#signal))) return true
      this.#suspect(text)
      return (await this.#explanations.ended(text)) ?? false
    } catch (error) {
      if (this.#signal.aborted) return false
      log.warn({ source: this.#options.id, reason: errorText(error) }, 'An object cannot be compared with Git')
      return false
    }
  }

  /** Number of objects of the source, as the last round has left them. */
  get objects(): number {
    return this.#checkable().length
  }

  /** Checks all objects from now on. @returns number of those that were compared. @throws the signal's reason */
  async checkAll(signal: AbortSignal): Promise<number> {
    return await this.#check.run(signal)
  }

  async #checkEach(): Promise<number> {
    const texts = this.#checkable().values() // shared: each object is checked once
    let compared = 0
    const work = async () => {
      for (const text of texts) if (await abortable(this.check(text), this.#signal)) compared += 1
    }
    await Promise.all(Array.from({ length: maxChecks }, work))
    return compared
  }

  #checkable(): readonly string[] {
    return [...this.#entries].flatMap(([text, { digest }]) => (digest ? [text] : []))
  }

  /** Compares one object, by `keyText`, with its values. @throws the connection's error, or the signal's reason */
  async values(text: string, signal: AbortSignal): Promise<ComparedValues> {
    const [manifest, entry] = [await this.#components.kept.read(text), this.#entries.get(text)]
    if (!manifest || !entry || manifest.digest !== entry.digest || !this.#kinds) {
      return { kind: 'notCompared', reason: 'agentk has not kept its manifest: the next round compares it' }
    }
    return await this.#components.values(manifest, { kinds: this.#kinds, entry }, signal)
  }

  /** Decides, in a round, on an object that Git has not changed and that is not as it was applied. */
  async judge(manifest: ComparedManifest, judged: JudgedObject, signal: AbortSignal): Promise<Verdict> {
    const text = keyText(manifest.key)
    const { live } = judged
    const known = this.#findings.find(text)
    if (known && known.resourceVersion === (live?.resourceVersion ?? '')) return this.#verdict(text, known, judged)
    const explanation = await this.#explainJudged(manifest, judged, signal)
    const verdict = this.#verdictBy(explanation, manifest, judged)
    if (verdict.kind !== 'write') this.#explainLater(text, explanation) // else an apply follows
    return verdict
  }

  #verdictBy(explanation: Explanation, manifest: ComparedManifest, judged: JudgedObject): Verdict {
    const text = keyText(manifest.key)
    const isCorrected = this.#options.drift.mode === 'correct'
    // the apply says what it waits for, and makes an object that is gone by then
    if (explanation.kind === 'beingDeleted') return isCorrected ? { kind: 'write' } : { kind: 'same', live: undefined }
    if (explanation.kind === 'same') {
      this.#findings.forget(text)
      const { hasLostFields, of } = explanation
      if (hasLostFields && isCorrected) return { kind: 'write' }
      // with the lost fields as reference, no metadata would show their next change
      return { kind: 'same', live: hasLostFields ? undefined : of?.live }
    }
    return this.#verdict(text, this.#findingOf(manifest, judged.entry, explanation), judged)
  }

  /** Explains an object for a round. An error is about this one: the round goes on with the others. */
  async #explainJudged(manifest: ComparedManifest, judged: JudgedObject, signal: AbortSignal): Promise<Explanation> {
    try {
      return await this.#components.explain(manifest, judged, signal)
    } catch (error) {
      signal.throwIfAborted()
      const reason = errorText(error)
      this.#components.log.warn({ source: this.#options.id, reason }, 'An object cannot be compared with Git')
      this.#components.clock.after(retryMs, () => this.#suspect(keyText(manifest.key)))
      return { kind: 'notCompared', of: undefined, reason, isProven: false }
    }
  }

  #verdict(text: string, finding: Finding, { live, entry }: JudgedObject): Verdict {
    if (this.#findings.note(text, finding, entry.drift).kind !== 'write') return { kind: 'left', finding, live }
    this.#findings.attempt(text)
    return { kind: 'write', finding }
  }

  #suspect(text: string, how?: { readonly isOnlyScaled: boolean }): void {
    this.#explanations.request(text, how)
  }

  /** Compares an object. An error is logged, and the object is compared later. @returns true: it was compared */
  async #explain(text: string, isOnlyScaled: boolean): Promise<boolean> {
    const { kept, log } = this.#components
    try {
      const [manifest, entry] = [await kept.read(text), this.#entries.get(text)]
      // another digest: Git has changed it, and a round is to come
      if (manifest && manifest.digest === entry?.digest)
        return await this.#explainKept(text, manifest, { entry, isOnlyScaled })
      if (entry && !manifest) this.#requestBuild()
    } catch (error) {
      if (this.#signal.aborted) return false
      log.warn({ source: this.#options.id, reason: errorText(error) }, 'An object cannot be compared with Git')
      this.#explanations.requestLater(text, retryMs)
    }
    return false
  }

  /** @returns true: it was compared */
  async #explainKept(
    text: string,
    manifest: ComparedManifest,
    of: { readonly entry: InventoryEntry; readonly isOnlyScaled: boolean },
  ): Promise<boolean> {
    const { entry } = of
    const { explain, requestRound } = this.#components
    const kinds = this.#kinds as ClusterKinds
    const explanation = await explain(manifest, { ...of, kinds }, this.#signal)
    if (this.#duringRound) {
      this.#outrun.add(text) // the round may write it, and may have judged it before
      return false
    }
    if (this.#entries.get(text) !== entry) {
      this.#suspect(text) // a round has written meanwhile
      return false
    }
    if ('of' in explanation && explanation.of) this.#baselines.set(text, explanation.of.baseline)
    if (explanation.kind === 'beingDeleted') return true
    this.#explainLater(text, explanation)
    if (explanation.kind === 'same') {
      this.#findings.forget(text)
      if (explanation.hasLostFields && this.#options.drift.mode === 'correct') requestRound()
      return true
    }
    const wasDeleted = this.#findings.find(text)?.isDeleted
    this.#findings.note(text, this.#findingOf(manifest, entry, explanation), entry.drift)
    if (explanation.kind === 'deleted' && !wasDeleted) this.#explanations.requestLater(text, absentMs)
    return true
  }

  /** Explains an object once more when the second of its newest change is over: a later one may leave the same metadata. */
  #explainLater(text: string, explanation: Explanation): void {
    const again = 'again' in explanation ? explanation.again : undefined
    if (again !== undefined) this.#explanations.requestLater(text, again - this.#components.clock.now())
  }

  /** Requests a round, which compares objects with the manifests that it builds. */
  #requestBuild(): void {
    this.#cancelBuild ??= this.#components.clock.after(buildMs, () => {
      this.#cancelBuild = undefined
      this.#components.requestRound()
    })
  }

  #findingOf(
    manifest: ComparedManifest,
    { drift: recorded }: InventoryEntry,
    explanation: Exclude<Explanation, { kind: 'same' | 'beingDeleted' }>,
  ): Finding {
    const before = this.#findings.find(keyText(manifest.key))
    return findingOf(manifest, explanation, { recorded, before, now: this.#components.clock.now() })
  }
}
