import { keyName, keyText, type ObjectKey } from '../../../../kubernetes/key.ts'
import { builtIn } from '../../../../kubernetes/kind.ts'
import { type KubernetesObject, textAt } from '../../../../kubernetes/object.ts'
import { objectPath } from '../../../../kubernetes/path.ts'
import { errorText } from '../../../../lib/errors.ts'
import type { ApiLane } from '../../../cluster/background-requests.ts'
import { maxEventBytes } from '../../../cluster/watch-request.ts'
import type { ClusterKind, ClusterKinds } from '../live/cluster-kinds.ts'
import { holdsOf } from '../live/deletion.ts'
import { absentOf } from '../live/lacked.ts'
import type { LiveObject } from '../live/live-object.ts'
import { type ApplyProblem, refusal } from '../live/refusal.ts'
import { marked, replaceAnnotation } from '../manifests/annotations.ts'
import { lossOfReplaced, withLoss } from '../manifests/losses.ts'
import { type Manifest, mayHaveField } from '../manifests/manifest.ts'
import { isParent } from '../manifests/parents.ts'
import { isCleanedUp } from '../manifests/run-once.ts'
import type { ApplyEnd, InventoryEntry, WaveGraph } from '../round.ts'
import type { Applier, ApplyOutcome, ApplyRequest } from './applier.ts'
import { isStateless } from './health-gate.ts'
import { kindOrder } from './kind-order.ts'
import { ownerProblem } from './owners.ts'
import { bringAgain, isReplaceable, type ReplaceRequest, type Trial, untriedProblem } from './replacement.ts'
import { type Standing, standingOf } from './standing.ts'
import type { JudgedObject, Verdict } from './verdict.ts'

export interface ApplyRunComponents {
  readonly applier: Pick<Applier, 'apply'>
  /** `replaceObject` */
  readonly replace: (request: ReplaceRequest, superseded: AbortSignal, signal: AbortSignal) => Promise<ApplyOutcome>
  /** `tryMaking` */
  readonly tryMaking: (request: ApplyRequest, signal: AbortSignal) => Promise<Trial>
  /** `passGate` */
  readonly pass: (
    of: { readonly kind: ClusterKind; readonly key: ObjectKey; readonly applied: KubernetesObject },
    signal: AbortSignal,
  ) => Promise<string | undefined>
  /** acts as the source's account */
  readonly lane: ApiLane
  /** returns the kinds, with this one if it is served. @param isDefined - this run has applied its definition */
  readonly kindsWith: (key: ObjectKey, version: string, isDefined: boolean) => Promise<ClusterKinds>
  readonly onEnd: (key: ObjectKey, end: ApplyEnd) => void
  /** decides on objects that Git has not changed, and that are not as they were applied */
  readonly judge: (manifest: Manifest, of: JudgedObject, signal: AbortSignal) => Promise<Verdict>
  /** true for an object, by `keyText`, that was found to differ from Git */
  readonly isDrifted: (text: string) => boolean
  /** true: the owners that a manifest names are read before the apply; absent: always */
  readonly checksOwners?: (manifest: Manifest) => boolean
  /** saves in the inventory, at once, that a run-once object was applied */
  readonly remember: (manifest: Manifest, end: ApplyEnd) => Promise<void>
}

export interface ApplyRunInput {
  readonly id: string
  readonly manifests: readonly Manifest[]
  readonly graph: WaveGraph
  readonly kinds: ClusterKinds
  /** by `keyText`: entries of the inventory */
  readonly entries: ReadonlyMap<string, InventoryEntry>
  /** by `keyText`; null: it cannot be read */
  readonly live: ReadonlyMap<string, LiveObject | null>
  /** by `keyText`: objects whose replicas differ, though the applied fields have not changed */
  readonly unscaled?: ReadonlySet<string>
  /** aborts when a newer commit has come */
  readonly superseded: AbortSignal
}

/** Message of the API server about an object in a namespace that is being deleted. */
const isOfEnding = /because it is being terminated/

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
  /** by namespace that is being deleted: what blocks its deletion */
  readonly #holds = new Map<string, Promise<string>>()

  constructor(components: ApplyRunComponents, input: ApplyRunInput, signal: AbortSignal) {
    this.#components = components
    this.#input = input
    this.#signal = signal
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

  /** Tries an object as a new one that the API server refuses as a change. @returns undefined: another cause is known */
  async #tryMaking({ places = [], refuser }: ApplyProblem, request: ApplyRequest): Promise<Trial | undefined> {
    if (places.length === 0 || refuser !== undefined) return undefined
    return await this.#components.tryMaking(request, this.#signal)
  }

  async #applyOrReplace(request: ApplyRequest): Promise<ApplyOutcome> {
    const { applier, replace } = this.#components
    const outcome = await applier.apply(request, this.#signal)
    if (!('problem' in outcome)) return outcome
    const { problem } = outcome
    const isBadObject = problem.kind === 'invalid' && request.live !== undefined
    if (problem.kind !== 'immutable' && !isBadObject) return outcome
    if (isReplaceable(request.object)) {
      return await replace({ ...request, problem }, this.#input.superseded, this.#signal)
    }
    const trial = isBadObject ? await this.#tryMaking(problem, request) : { kind: 'taken' as const }
    if (trial?.kind === 'untried') return { problem: untriedProblem(problem, trial) }
    if (trial?.kind !== 'taken') return outcome
    const { wayOut, text } = problem
    const taken = { ...problem, ...(isBadObject && { isTakenAsNew: true as const }) }
    if (wayOut !== undefined) return { problem: { ...taken, text: `${text}; ${wayOut}` } }
    const again = isParent(request.key) ? bringAgain : `${replaceAnnotation}: allow on it has it deleted and made again`
    return { problem: { ...taken, text: withLoss(`${text}; ${again}`, lossOfReplaced(request.key)) } }
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

  /** Reads why a namespace that is being deleted still exists; empty: not known. */
  #namespaceHolds({ namespace }: ObjectKey): Promise<string> {
    const read = async () => {
      const path = objectPath(builtIn.namespaces, { name: namespace })
      const { status, body } = await this.#components.lane.json('GET', path, undefined, this.#signal)
      return status === 200 ? holdsOf(body as KubernetesObject) : ''
    }
    const known = this.#holds.get(namespace) ?? read()
    this.#holds.set(namespace, known)
    return known
  }

  async #apply(manifest: Manifest, text: string): Promise<ApplyEnd> {
    const { key, version } = manifest
    const { id, entries } = this.#input
    const found = this.#input.live.get(text)
    if (found === null) return failed({ kind: 'unavailable', text: 'it cannot be read' })
    const kinds = this.#input.kinds.find(key, version)
      ? this.#input.kinds
      : await this.#components.kindsWith(key, version, this.#isDefined(text))
    const kind = kinds.find(key, version)
    const problemOf = (problem: ApplyProblem) => {
      const absent = absentOf(problem, manifest, kinds)
      return failed({ ...problem, ...(absent && { absent }) })
    }
    if (!kind) {
      return problemOf({ kind: 'unserved', text: `nobody serves ${key.kind} in version ${version} of its group` })
    }
    if (kind.isNamespaced !== (key.namespace !== '')) {
      return failed({ kind: 'invalid', text: kind.isNamespaced ? 'it has no namespace' : 'its kind has no namespaces' })
    }
    const object = marked(manifest, { inventory: id, owner: id })
    if (isEncrypted(object))
      return failed({ kind: 'invalid', text: 'it is encrypted by SOPS, which is not decrypted here' })
    const uid = entries.get(text)?.uid ?? ''
    try {
      const orphaned =
        mayHaveField(manifest, 'ownerReferences') &&
        (this.#components.checksOwners?.(manifest) ?? true) &&
        (await ownerProblem({ lane: this.#components.lane, kinds }, { key, object }, this.#signal))
      if (orphaned) return problemOf(orphaned)
      const outcome = await this.#applyOrReplace({ key, kind, object, live: found, uid })
      if ('problem' in outcome) {
        const { problem } = outcome
        const holds = isOfEnding.test(problem.text) ? await this.#namespaceHolds(key) : ''
        return problemOf(holds === '' ? problem : { ...problem, text: `${problem.text}: ${holds}` })
      }
      if (this.#input.graph.dependents(text).length > 0) this.#applied.set(text, outcome.object)
      const { live, undone, overwritten = [], leftOut, uncompared } = outcome
      const verdict = this.#verdicts.get(text)
      // admission may have added the time after which the cluster deletes it
      const isOnce = isCleanedUp(key, object) || isCleanedUp(key, outcome.object)
      const end: ApplyEnd = {
        kind: 'applied',
        live,
        ...(undone && { undone }),
        ...(overwritten.length > 0 && { overwritten }),
        ...(verdict?.kind === 'write' && verdict.finding && { corrected: verdict.finding }),
        ...(leftOut && { leftOut }),
        ...(uncompared !== undefined && { uncompared }),
        ...(isOnce && { runsOnce: true }),
      }
      if (isOnce) await this.#components.remember(manifest, end)
      return end
    } catch (error) {
      this.#signal.throwIfAborted()
      return failed({ kind: 'unavailable', text: errorText(error) })
    }
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

/** True if SOPS has encrypted the object; the kind of the SOPS operator is applied as it is. */
function isEncrypted(object: KubernetesObject): boolean {
  return textAt(object, 'sops.mac') !== '' && object.kind !== 'SopsSecret'
}

function failed(problem: ApplyProblem): ApplyEnd {
  return { kind: 'failed', problem }
}
