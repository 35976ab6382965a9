import { keyName, keyText, type ObjectKey } from '../../../../kubernetes/key.ts'
import type { KubernetesObject } from '../../../../kubernetes/object.ts'
import { objectPath } from '../../../../kubernetes/path.ts'
import { maxEventBytes } from '../../../cluster/watch-request.ts'
import type { ClusterKind } from '../live/cluster-kinds.ts'
import { refusal } from '../live/refusal.ts'
import type { Manifest } from '../manifests/manifest.ts'
import type { ApplyEnd, InventoryEntry, WaveGraph } from '../round.ts'
import { isStateless } from './health-gate.ts'
import { kindOrder } from './kind-order.ts'
import { ManifestApplier, type ManifestApplierComponents, type ManifestApplierInput } from './manifest-applier.ts'
import { type Standing, standingOf } from './standing.ts'
import type { JudgedObject, Verdict } from './verdict.ts'

export interface ApplyRunComponents extends ManifestApplierComponents {
  /** `passGate` */
  readonly pass: (
    of: { readonly kind: ClusterKind; readonly key: ObjectKey; readonly applied: KubernetesObject },
    signal: AbortSignal,
  ) => Promise<string | undefined>
  readonly onEnd: (key: ObjectKey, end: ApplyEnd) => void
  /** decides on objects that Git has not changed, and that are not as they were applied */
  readonly judge: (manifest: Manifest, of: JudgedObject, signal: AbortSignal) => Promise<Verdict>
  /** true for an object, by `keyText`, that was found to differ from Git */
  readonly isDrifted: (text: string) => boolean
}

export interface ApplyRunInput extends ManifestApplierInput {
  readonly manifests: readonly Manifest[]
  readonly graph: WaveGraph
  /** by `keyText`: objects whose replicas differ, though the applied fields have not changed */
  readonly unscaled?: ReadonlySet<string>
}

/** Applies the objects of one commit, each as soon as its dependencies exist and are healthy. */
export class ApplyRun {
  readonly #components: ApplyRunComponents
  readonly #input: ApplyRunInput
  readonly #signal: AbortSignal
  readonly #manifests: ReadonlyMap<string, Manifest>
  readonly #kindsBefore: (text: string) => readonly string[]
  readonly #ends = new Map<string, Promise<ApplyEnd>>()
  /** by `keyText`: unchanged objects with a dependency that is missing or not healthy, and the reason */
  readonly #waitingUnchanged = new Map<string, string>()
  /** objects that are to be applied, or depend on such an object */
  readonly #moving = new Set<string>()
  readonly #gates = new Map<string, Promise<string | undefined>>()
  readonly #applied = new Map<string, KubernetesObject>()
  /** by `keyText`: objects that Git has not changed, and that are not as they were applied */
  #verdicts: ReadonlyMap<string, Verdict> = new Map()
  readonly #applier: ManifestApplier

  constructor(components: ApplyRunComponents, input: ApplyRunInput, signal: AbortSignal) {
    this.#components = components
    this.#input = input
    this.#signal = signal
    this.#applier = new ManifestApplier(components, input, signal)
    this.#manifests = new Map(input.manifests.map((manifest) => [keyText(manifest.key), manifest]))
    this.#kindsBefore = kindOrder(input.manifests, input.graph)
  }

  /** @returns by `keyText`. @throws the connection's error, or the signal's reason, once no part runs any more */
  async run(): Promise<ReadonlyMap<string, ApplyEnd>> {
    const { graph } = this.#input
    this.#verdicts = await this.#judge()
    const isMoving = oncePerList((texts) => texts.some((text) => this.#moving.has(text)))
    for (const text of graph.order) {
      const manifest = this.#manifests.get(text)
      if (!manifest) continue
      const isUnchanged = this.#isUnchanged(manifest, text)
      if (!isUnchanged || isMoving(graph.named(text)) || isMoving(graph.stepBefore(text))) this.#moving.add(text)
      this.#ends.set(text, this.#applyOne(manifest, text, isUnchanged))
    }
    const all = [...this.#ends]
    const settled = await Promise.allSettled([...all.map(([, end]) => end), ...this.#gates.values()])
    for (const one of settled) if (one.status === 'rejected') throw one.reason
    return new Map(await Promise.all(all.map(async ([text, end]) => [text, await end] as const)))
  }

  /** Asks for a verdict on each object that has drifted, before anything moves. */
  async #judge(): Promise<ReadonlyMap<string, Verdict>> {
    const drifted = [...this.#manifests].filter(([text, manifest]) => this.#standing(manifest, text) === 'drifted')
    const judge = async ([text, manifest]: (typeof drifted)[number]) => {
      const live = this.#input.live.get(text) ?? undefined
      const of = { live, kinds: this.#input.kinds, entry: this.#input.entries.get(text) as InventoryEntry }
      return [text, await this.#components.judge(manifest, of, this.#signal)] as const
    }
    return new Map(await Promise.all(drifted.map(judge)))
  }

  async #applyOne(manifest: Manifest, text: string, isUnchanged: boolean): Promise<ApplyEnd> {
    const end = await this.#end(manifest, text, isUnchanged)
    this.#components.onEnd(manifest.key, end)
    return end
  }

  async #end(manifest: Manifest, text: string, isUnchanged: boolean): Promise<ApplyEnd> {
    const blockedBy = this.#moving.has(text) ? await this.#blockedBy(text) : undefined
    if (isUnchanged) {
      if (blockedBy !== undefined) this.#waitingUnchanged.set(text, blockedBy)
      return this.#unchanged(text)
    }
    if (blockedBy !== undefined) return { kind: 'waits', text: blockedBy }
    await this.#tried(this.#kindsBefore(text))
    this.#signal.throwIfAborted()
    if (this.#input.superseded.aborted) return { kind: 'left' }
    return await this.#apply(manifest, text)
  }

  /** Waits until the objects were tried, whatever the result. */
  readonly #tried = oncePerList(async (texts): Promise<void> => {
    await undefined // all have begun after this
    for (const text of texts) await this.#ends.get(text)
  })

  /** Returns the first dependency that is missing or not healthy. */
  async #blockedBy(text: string): Promise<string | undefined> {
    const { graph } = this.#input
    const [named, step] = [graph.named(text), graph.stepBefore(text)]
    const missing = (await this.#missing(named)) ?? (await this.#missing(step))
    if (missing !== undefined) return missing
    const gates = await Promise.all([this.#unhealthy(named), this.#unhealthy(step)])
    return gates.find((reason) => reason !== undefined)
  }

  /** Returns the first object that was not applied, and the reason. Waits for one after another, while all run. */
  readonly #missing = oncePerList(async (texts): Promise<string | undefined> => {
    for (const text of texts) {
      const end = await this.#ends.get(text)
      const name = keyName((this.#manifests.get(text) as Manifest).key)
      if (end?.kind === 'left') return `${name}: a newer commit has come`
      if (end?.kind === 'failed') return `${name} has failed: ${end.problem.text}`
      const blockedBy = end?.kind === 'waits' ? end.text : this.#waitingUnchanged.get(text)
      if (blockedBy !== undefined) return `${name} waits: ${blockedBy}`
    }
    return undefined
  })

  readonly #unhealthy = oncePerList(async (texts): Promise<string | undefined> => {
    const gates = await Promise.all(texts.map((text) => this.#gate(text)))
    return gates.find((reason) => reason !== undefined)
  })

  #gate(text: string): Promise<string | undefined> {
    const known = this.#gates.get(text)
    const gate = known ?? this.#pass(this.#manifests.get(text) as Manifest, text)
    this.#gates.set(text, gate)
    return gate
  }

  async #pass({ key, version }: Manifest, text: string): Promise<string | undefined> {
    if (isStateless(key)) return undefined
    const kinds = await this.#components.kindsWith(key, version, this.#isDefined(text))
    const kind = kinds.find(key, version)
    if (!kind) return `${keyName(key)}: nobody serves its kind`
    const object = this.#applied.get(text) ?? (await this.#read(kind, key))
    if (!object) return undefined // a Job that has run, and was cleaned up
    const both = AbortSignal.any([this.#signal, this.#input.superseded])
    try {
      const reason = await this.#components.pass({ kind, key, applied: object }, both)
      return reason === undefined ? undefined : `${keyName(key)}: ${reason}`
    } catch (error) {
      if (this.#signal.aborted || !this.#input.superseded.aborted) throw error
      return `${keyName(key)}: a newer commit has come`
    }
  }

  async #read(kind: ClusterKind, key: ObjectKey): Promise<KubernetesObject | undefined> {
    const path = objectPath(kind, key)
    const answer = await this.#components.lane.json('GET', path, undefined, this.#signal, { maxBytes: maxEventBytes })
    if (answer.status === 404) return undefined
    if (answer.status !== 200) throw new Error(`${keyName(key)}: ${refusal(answer, path).text}`)
    return answer.body as KubernetesObject
  }

  /** Result for an object to which nothing is sent. */
  #unchanged(text: string): ApplyEnd {
    const verdict = this.#verdicts.get(text)
    if (verdict?.kind === 'left') return { kind: 'drifted', finding: verdict.finding, live: verdict.live }
    const live = verdict?.kind === 'same' ? verdict.live : (this.#input.live.get(text) ?? undefined)
    const leftOut = live?.ignored === undefined ? undefined : this.#input.entries.get(text)?.leftOut
    const isReferenceNew = verdict?.kind === 'same'
    return { kind: 'unchanged', live, ...(leftOut && { leftOut }), ...(isReferenceNew && { isReferenceNew }) }
  }

  /** True if nothing is to be sent. */
  #isUnchanged(manifest: Manifest, text: string): boolean {
    const standing = this.#standing(manifest, text)
    return standing === 'drifted' ? this.#verdicts.get(text)?.kind !== 'write' : standing === 'asApplied'
  }

  #standing(manifest: Manifest, text: string): Standing {
    const { id, unscaled, entries, live } = this.#input
    const of = { entry: entries.get(text), live: live.get(text) }
    const isDrifted = this.#components.isDrifted(text)
    const isUnscaled = unscaled?.has(text) === true && !isDrifted // a person has scaled it: drift says when it is set back
    return standingOf(manifest, { id, ...of, isUnscaled, isDrifted })
  }

  #isDefined(text: string): boolean {
    const kinds = this.#input.graph.named(text).map((one) => this.#manifests.get(one)?.key.kind)
    return kinds.includes('CustomResourceDefinition')
  }

  async #apply(manifest: Manifest, text: string): Promise<ApplyEnd> {
    const given = { verdict: this.#verdicts.get(text), isDefined: this.#isDefined(text) }
    const { end, object } = await this.#applier.apply(manifest, given)
    if (object && this.#input.graph.dependents(text).length > 0) this.#applied.set(text, object)
    return end
  }
}

/** Runs `work` once for each list, since all objects of a wave wait for one list. */
function oncePerList<T>(work: (texts: readonly string[]) => T): (texts: readonly string[]) => T {
  const known = new Map<readonly string[], T>()
  return (texts) => {
    const found = known.get(texts) ?? work(texts)
    known.set(texts, found)
    return found
  }
}
