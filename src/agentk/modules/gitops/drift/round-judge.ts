import { keyText } from '../../../../kubernetes/key.ts'
import type { Clock } from '../../../../lib/clock.ts'
import { errorText } from '../../../../lib/errors.ts'
import type { Logger } from '../../../../lib/log.ts'
import type { JudgedObject, Verdict } from '../apply/verdict.ts'
import type { Finding } from '../finding.ts'
import type { SourceOptions } from '../source-options.ts'
import type { Comparisons } from './comparisons.ts'
import type { Explanation } from './explanation.ts'
import { findingOf } from './found.ts'
import type { ComparedManifest } from './kept-manifests.ts'
import type { KnownFindings } from './known-findings.ts'
import { retryMs, type SourceExplanations } from './source-explanations.ts'

export interface RoundJudgeComponents extends Pick<Comparisons, 'explain'> {
  readonly findings: Pick<KnownFindings, 'find' | 'note' | 'attempt' | 'forget'>
  readonly explanations: Pick<SourceExplanations, 'request' | 'requestAgain'>
  readonly clock: Pick<Clock, 'now' | 'after'>
  readonly log: Logger
}

/** Decides, in rounds, on a source's objects that Git has not changed and that are not as they were applied. */
export class RoundJudge {
  readonly #components: RoundJudgeComponents
  readonly #options: SourceOptions

  constructor(components: RoundJudgeComponents, options: SourceOptions) {
    this.#components = components
    this.#options = options
  }

  /** Decides on one object. @throws the signal's reason */
  async judge(manifest: ComparedManifest, judged: JudgedObject, signal: AbortSignal): Promise<Verdict> {
    const text = keyText(manifest.key)
    const { findings, explanations } = this.#components
    const { live } = judged
    const known = findings.find(text)
    if (known && known.resourceVersion === (live?.resourceVersion ?? '')) return this.#verdict(text, known, judged)
    const explanation = await this.#explainJudged(manifest, judged, signal)
    const verdict = this.#verdictBy(explanation, manifest, judged)
    if (verdict.kind !== 'write') explanations.requestAgain(text, explanation) // else an apply follows
    return verdict
  }

  #verdictBy(explanation: Explanation, manifest: ComparedManifest, judged: JudgedObject): Verdict {
    const { findings, clock } = this.#components
    const text = keyText(manifest.key)
    const isCorrected = this.#options.drift.mode === 'correct'
    // the apply says what it waits for, and makes an object that is gone by then
    if (explanation.kind === 'beingDeleted') return isCorrected ? { kind: 'write' } : { kind: 'same', live: undefined }
    if (explanation.kind === 'same') {
      findings.forget(text)
      const { hasLostFields, of } = explanation
      if (hasLostFields && isCorrected) return { kind: 'write' }
      // with the lost fields as reference, no metadata would show their next change
      return { kind: 'same', live: hasLostFields ? undefined : of?.live }
    }
    const of = { recorded: judged.entry.drift, before: findings.find(text), now: clock.now() }
    return this.#verdict(text, findingOf(manifest, explanation, of), judged)
  }

  /** Explains an object for a round. An error is about this one: the round goes on with the others. */
  async #explainJudged(manifest: ComparedManifest, judged: JudgedObject, signal: AbortSignal): Promise<Explanation> {
    const { explain, explanations, clock, log } = this.#components
    try {
      return await explain(manifest, judged, signal)
    } catch (error) {
      signal.throwIfAborted()
      const reason = errorText(error)
      log.warn({ source: this.#options.id, reason }, 'An object cannot be compared with Git')
      clock.after(retryMs, () => explanations.request(keyText(manifest.key)))
      return { kind: 'notCompared', of: undefined, reason, isProven: false }
    }
  }

  #verdict(text: string, finding: Finding, { live, entry }: JudgedObject): Verdict {
    const { findings } = this.#components
    if (findings.note(text, finding, entry.drift).kind !== 'write') return { kind: 'left', finding, live }
    findings.attempt(text)
    return { kind: 'write', finding }
  }
}
