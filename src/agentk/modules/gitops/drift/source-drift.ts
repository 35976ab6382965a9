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
import { referenceOf } from './reference.ts'
import { SharedCheck } from './shared-check.ts'
import { type Baseline, mayBeScaled, suspicion } from './suspect.ts'

/** Pause before a round that compares objects whose manifests are not kept. ms */
const buildMs = 10_000
/** Pause before an explanation without an answer is tried again. ms */
const retryMs = 30_000
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

/** Explanation that waits or runs. */
interface RunningExplanation {
  /** it has to be repeated */
  isDue: boolean
  /** `scale` explains all that moved since the last one */
  isOnlyScaled: boolean
  /** resolves with true if the object was compared */
  readonly ended: Promise<boolean>
  readonly end: (isCompared: boolean) => void
}

/** Result of a round, or of a pause. */
export interface RoundResult extends Left {
  readonly kinds: ClusterKinds
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
  /** by `keyText` */
  readonly #explaining = new Map<string, RunningExplanation>()
  /** objects whose explanation came while a round was writing */
  readonly #outrun = new Set<string>()
  readonly #check = new SharedCheck(() => this.#checkEach())
  /** by `keyText`: metadata of objects that were seen during a round; undefined: they are gone. No round: none */
  #duringRound: Map<string, LiveObject | undefined> | undefined
  #cancelBuild: (() => void) | undefined

  constructor(components: SourceDriftComponents, options: SourceOptions, signal: AbortSignal) {
    this.#components = components
    this.#options = options
    this.#findings = new KnownFindings(components, options, signal)
    this.#isAdder = isAdderOf(options.drift)
    this.#signal = signal
    signal.addEventListener('abort', () => this.#stop(), { once: true })
  }

  /** Findings by `keyText`. */
  get known(): ReadonlyMap<string, KnownFinding> {
    return this.#findings.all
  }

  /** No call of an earlier leader can arrive any more. */
  settled(): void {
    this.#findings.settled()
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
    }
    this.#findings.roundEnds(result)
    for (const [text, live] of seen ?? []) this.#seenInRound(text, live)
    for (const text of this.#outrun) this.#suspect(text)
    this.#outrun.clear()
  }

  /** An object is as it was applied: that ends its drift, and says nothing of what an apply would change. */
  #seenInRound(text: string, live: LiveObject | undefined): void {
    const entry = this.#entries.get(text)
    if (!entry?.digest) return
    const isAsBefore =
      live !== undefined && isAsApplied(entry, live, this.#options.id) && !isMoved(entry, live.generation)
    const known = this.#findings.find(text)
    if (isAsBefore && (!known || known.kind === 'drifted')) this.#findings.forget(text)
    else this.#suspect(text)
  }

  /** Takes metadata that a watch has sent. @param live - returns them as a round reads them */
  seen(key: ObjectKey, object: KubernetesObject, live: () => LiveObject): void {
    const text = keyText(key)
    if (this.#duringRound) {
      this.#duringRound.set(text, live())
      return
    }
    const entry = this.#entries.get(text)
    if (!entry?.digest) return
    const { id, manager } = this.#options
    const baseline = this.#baselines.get(text)
    const found = suspicion(referenceOf(entry, id), object, { manager, isAdder: this.#isAdder, baseline })
    const known = this.#findings.find(text)
    if (known && !known.isDeleted && known.holdUntil !== holdUntil(object)) this.#suspect(text)
    if (!('baseline' in found)) return // nothing moved, or it goes later
    this.#baselines.set(text, found.baseline)
    if (found.kind === 'suspect' || known || (!baseline && isMoved(entry, found.baseline.generation)))
      this.#suspect(text, { isOnlyScaled: !known && mayBeScaled(found) })
  }

  /** Takes metadata that were read, where there is no watch. */
  read(key: ObjectKey, live: LiveObject): void {
    const text = keyText(key)
    if (this.#duringRound) {
      this.#duringRound.set(text, live)
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
    else if (this.#entries.get(text)?.digest && !this.#findings.find(text)?.isDeleted) this.#suspect(text)
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
      return (await this.#explaining.get(text)?.ended) ?? false
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
    const { live, entry } = judged
    const known = this.#findings.find(text)
    if (known && known.resourceVersion === (live?.resourceVersion ?? '')) return this.#verdict(text, known, live)
    const explanation = await this.#components.explain(manifest, judged, signal)
    if (explanation.kind === 'beingDeleted') return { kind: 'write' } // the apply says what it waits for
    if (explanation.kind === 'same') {
      this.#findings.forget(text)
      const isTakenBack = explanation.hasLostFields && this.#options.drift.mode === 'correct'
      return isTakenBack ? { kind: 'write' } : { kind: 'same', live: explanation.of?.live }
    }
    return this.#verdict(text, this.#findingOf(manifest, entry, explanation), live)
  }

  #verdict(text: string, finding: Finding, live: LiveObject | undefined): Verdict {
    if (this.#findings.note(text, finding).kind !== 'write') return { kind: 'left', finding, live }
    this.#findings.attempt(text)
    return { kind: 'write', finding }
  }

  /** Requests the explanation of an object, once for all changes that come before it begins. */
  #suspect(text: string, { isOnlyScaled = false } = {}): void {
    if (this.#signal.aborted) return
    const running = this.#explaining.get(text)
    if (running) {
      running.isOnlyScaled = isOnlyScaled && (running.isOnlyScaled || !running.isDue)
      running.isDue = true
      return
    }
    const { promise: ended, resolve: end } = Promise.withResolvers<boolean>()
    const explanation: RunningExplanation = { isDue: false, isOnlyScaled, ended, end }
    this.#explaining.set(text, explanation)
    this.#components.turns.add({
      source: this,
      run: () => this.#explain(text, explanation),
      onLost: () => {
        this.#explaining.delete(text)
        explanation.end(false)
        this.#requestBuild()
      },
    })
  }

  async #explain(text: string, running: RunningExplanation): Promise<void> {
    running.isDue = false
    const { isOnlyScaled } = running
    const { kept, clock, log } = this.#components
    let isCompared = false
    try {
      const [manifest, entry] = [await kept.read(text), this.#entries.get(text)]
      // another digest: Git has changed it, and a round is to come
      if (manifest && manifest.digest === entry?.digest)
        isCompared = await this.#explainKept(text, manifest, { entry, isOnlyScaled })
      else if (entry && !manifest) this.#requestBuild()
    } catch (error) {
      if (this.#signal.aborted) return
      log.warn({ source: this.#options.id, reason: errorText(error) }, 'An object cannot be compared with Git')
      clock.after(retryMs, () => this.#suspect(text))
    } finally {
      this.#explaining.delete(text)
      running.end(isCompared)
      if (running.isDue) this.#suspect(text, running)
    }
  }

  /** @returns true: it was compared */
  async #explainKept(
    text: string,
    manifest: ComparedManifest,
    of: { readonly entry: InventoryEntry; readonly isOnlyScaled: boolean },
  ): Promise<boolean> {
    const { entry } = of
    const { explain, clock, requestRound } = this.#components
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
    const again = 'again' in explanation ? explanation.again : undefined
    if (again !== undefined) clock.after(Math.max(0, Math.ceil(again - clock.now())), () => this.#suspect(text))
    if (explanation.kind === 'same') {
      this.#findings.forget(text)
      if (explanation.hasLostFields && this.#options.drift.mode === 'correct') requestRound()
      return true
    }
    this.#findings.note(text, this.#findingOf(manifest, entry, explanation))
    return true
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

  #stop(): void {
    this.#cancelBuild?.()
    this.#components.turns.leave(this)
  }
}

/**
 * True if the generation differs from that after the last apply. Another manager may have moved it, or items of a list
 * are in another order, which no entry shows.
 */
function isMoved(entry: InventoryEntry, generation: number): boolean {
  return entry.generation !== undefined && generation !== entry.generation
}
