import { errorText } from '../../../../lib/errors.ts'
import type { Logger } from '../../../../lib/log.ts'
import { abortable } from '../../../../lib/signals.ts'
import type { ClusterKinds } from '../live/cluster-kinds.ts'
import type { InventoryEntry } from '../round.ts'
import type { SourceOptions } from '../source-options.ts'
import type { Comparisons } from './comparisons.ts'
import type { KeptManifests } from './kept-manifests.ts'
import type { KnownFindings } from './known-findings.ts'
import { SharedCheck } from './shared-check.ts'
import type { SourceExplanations } from './source-explanations.ts'

/** Objects that are checked at once, if somebody asks for all: their calls take turns with all others. */
const maxChecks = 16

/** Objects of a source, as its last round has left them. */
interface AppliedObjects {
  /** by `keyText` */
  readonly entries: ReadonlyMap<string, InventoryEntry>
  /** undefined: a round is writing, or none has ended */
  readonly kinds: ClusterKinds | undefined
}

export interface ObjectChecksComponents extends Pick<Comparisons, 'wouldChange'> {
  readonly applied: () => AppliedObjects
  readonly kept: Pick<KeptManifests, 'read'>
  readonly findings: Pick<KnownFindings, 'find'>
  readonly explanations: Pick<SourceExplanations, 'request' | 'ended'>
  readonly log: Logger
}

/** Checks of one source's objects that do not wait for an event: metadata do not show every change. */
export class ObjectChecks {
  readonly #components: ObjectChecksComponents
  readonly #options: SourceOptions
  readonly #signal: AbortSignal
  readonly #shared = new SharedCheck(() => this.#checkEach())

  constructor(components: ObjectChecksComponents, options: SourceOptions, signal: AbortSignal) {
    this.#components = components
    this.#options = options
    this.#signal = signal
  }

  /**
   * Checks one object, by `keyText`, whatever its metadata say. An error leaves it to the next scan.
   *
   * @returns true: it was compared
   */
  async check(text: string): Promise<boolean> {
    const { applied, kept, wouldChange, findings, explanations, log } = this.#components
    const { entries, kinds } = applied()
    const entry = entries.get(text)
    if (!entry?.digest || !kinds) return false
    try {
      const manifest = await kept.read(text)
      if (manifest?.digest !== entry.digest) return false
      const of = { kinds, entry }
      if (!findings.find(text) && !(await wouldChange(manifest, of, this.#signal))) return true
      explanations.request(text)
      return (await explanations.ended(text)) ?? false
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
  async all(signal: AbortSignal): Promise<number> {
    return await this.#shared.run(signal)
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
    return [...this.#components.applied().entries].flatMap(([text, { digest }]) => (digest ? [text] : []))
  }
}
