import { keyText, type ObjectKey } from '../../../../kubernetes/key.ts'
import type { KubernetesObject } from '../../../../kubernetes/object.ts'
import { errorText } from '../../../../lib/errors.ts'
import type { Logger } from '../../../../lib/log.ts'
import { isAsApplied } from '../apply/standing.ts'
import type { JudgedObject, Verdict } from '../apply/verdict.ts'
import { isAdderOf } from '../live/adders.ts'
import type { ClusterKinds } from '../live/cluster-kinds.ts'
import type { LiveObject } from '../live/live-object.ts'
import type { InventoryEntry } from '../round.ts'
import type { SourceOptions } from '../source-options.ts'
import { msUntilSettled } from './additions.ts'
import type { Comparisons } from './comparisons.ts'
import type { ComparedValues } from './explain-object.ts'
import type { ExplainTurns } from './explain-turns.ts'
import { findingOf } from './found.ts'
import { holdUntil } from './hold.ts'
import type { ComparedManifest, KeptManifests } from './kept-manifests.ts'
import { type KnownFinding, KnownFindings, type KnownFindingsComponents, type Left } from './known-findings.ts'
import { ObjectChecks } from './object-checks.ts'
import { isMoved, referenceOf, unknownReference } from './reference.ts'
import { RoundJudge } from './round-judge.ts'
import { retryMs, SourceExplanations } from './source-explanations.ts'
import { type Baseline, mayBeScaled, type Suspicion, suspicion } from './suspect.ts'

/** Pause before a round that compares objects whose manifests are not kept. ms */
const buildMs = 10_000
/** Pause before an object that has left is compared: `kubectl replace --force` makes it again meanwhile. ms */
const leftMs = 500
/**
 * Pause before an object that does not exist is compared once more: if it is made again without the source's label, no
 * watch shows it. ms
 */
const absentMs = 1500

export interface SourceDriftComponents extends KnownFindingsComponents, Comparisons {
  readonly turns: Pick<ExplainTurns, 'add' | 'leave'>
  readonly kept: Pick<KeptManifests, 'read'>
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
  /** result without the reference, which the round may change */
  readonly found: Suspicion
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
  readonly #checks: ObjectChecks
  readonly #roundJudge: RoundJudge
  /** by `keyText`: metadata of objects that were seen during a round; undefined: they are gone. No round: none */
  #duringRound: Map<string, SeenInRound | undefined> | undefined
  #cancelBuild: (() => void) | undefined

  constructor(components: SourceDriftComponents, options: SourceOptions, signal: AbortSignal) {
    this.#components = components
    this.#options = options
    this.#findings = new KnownFindings(components, options, signal)
    const explain = (text: string, isOnlyScaled: boolean) => this.#explain(text, isOnlyScaled)
    const onLost = () => this.#requestBuild()
    const { turns, kept, clock, log } = components
    this.#explanations = new SourceExplanations({ turns, explain, onLost, clock }, signal)
    const [findings, explanations] = [this.#findings, this.#explanations]
    const judging = { explain: components.explain, findings, explanations, clock, log }
    this.#roundJudge = new RoundJudge(judging, options)
    const applied = () => ({ entries: this.#entries, kinds: this.#duringRound ? undefined : this.#kinds })
    const checking = { applied, kept, wouldChange: components.wouldChange, findings, explanations, log }
    this.#checks = new ObjectChecks(checking, options, signal)
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

  /** Takes metadata that a watch has sent, or a read. @param live - returns them as a round reads them */
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
    if (found.kind !== 'suspect' && !known && !isIgnoredOther && !hasMoved) return
    const waitMs = msUntilSettled(object, { manager: this.#options.manager, now: this.#components.clock.now() })
    if (waitMs > 0) this.#explanations.requestLater(text, waitMs)
    else this.#suspect(text, { isOnlyScaled: !known && mayBeScaled(found) })
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

  /** Takes an object that has gone, or has lost the source's label. */
  left(key: ObjectKey): void {
    const text = keyText(key)
    if (this.#duringRound) this.#duringRound.set(text, undefined)
    else if (this.#entries.get(text)?.digest && !this.#findings.find(text)?.isDeleted)
      this.#explanations.requestLater(text, leftMs)
  }

  /** Number of objects of the source, as the last round has left them. */
  get objects(): number {
    return this.#checks.objects
  }

  /** As `ObjectChecks`. */
  async check(text: string): Promise<boolean> {
    return await this.#checks.check(text)
  }

  /** As `ObjectChecks`. */
  async checkAll(signal: AbortSignal): Promise<number> {
    return await this.#checks.all(signal)
  }

  /** Compares one object, by `keyText`, with its values. @throws the connection's error, or the signal's reason */
  async values(text: string, signal: AbortSignal): Promise<ComparedValues> {
    const [manifest, entry] = [await this.#components.kept.read(text), this.#entries.get(text)]
    if (!manifest || !entry || manifest.digest !== entry.digest || !this.#kinds) {
      return { kind: 'notCompared', reason: 'agentk has not kept its manifest: the next round compares it' }
    }
    return await this.#components.values(manifest, { kinds: this.#kinds, entry }, signal)
  }

  /** As `RoundJudge`. */
  async judge(manifest: ComparedManifest, judged: JudgedObject, signal: AbortSignal): Promise<Verdict> {
    return await this.#roundJudge.judge(manifest, judged, signal)
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
    this.#explanations.requestAgain(text, explanation)
    if (explanation.kind === 'same') {
      this.#findings.forget(text)
      if (explanation.hasLostFields && this.#options.drift.mode === 'correct') requestRound()
      return true
    }
    const before = this.#findings.find(text)
    const facts = { recorded: entry.drift, before, now: this.#components.clock.now() }
    this.#findings.note(text, findingOf(manifest, explanation, facts), entry.drift)
    if (explanation.kind === 'deleted' && !before?.isDeleted) this.#explanations.requestLater(text, absentMs)
    return true
  }

  /** Requests a round, which compares objects with the manifests that it builds. */
  #requestBuild(): void {
    this.#cancelBuild ??= this.#components.clock.after(buildMs, () => {
      this.#cancelBuild = undefined
      this.#components.requestRound()
    })
  }
}
