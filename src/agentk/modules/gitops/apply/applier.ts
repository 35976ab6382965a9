import type { ObjectKey } from '../../../../kubernetes/key.ts'
import { type KubernetesObject, numberAt, textAt } from '../../../../kubernetes/object.ts'
import { objectPath, withQuery } from '../../../../kubernetes/path.ts'
import type { ApiLane } from '../../../cluster/background-requests.ts'
import { metadataOnly } from '../../../cluster/object-list.ts'
import { maxEventBytes } from '../../../cluster/watch-request.ts'
import { isAdderOf } from '../live/adders.ts'
import type { ClusterKind } from '../live/cluster-kinds.ts'
import { placesNamed, removeFields } from '../live/field-places.ts'
import { type LiveObject, liveObjectOf } from '../live/live-object.ts'
import { type IgnoredOf, usualReplicasPath } from '../live/managed-fields.ts'
import { type ApplyProblem, isStale, maxAttempts, refusal } from '../live/refusal.ts'
import type { ObjectTree } from '../manifests/manifest.ts'
import { shownField } from '../manifests/secrets.ts'
import type { FieldConflict, LeftOut, Undone } from '../round.ts'
import type { DriftPolicy } from '../source-options.ts'
import { areReplicas, conflictsIn } from './conflicts.ts'
import {
  hasIndexes,
  type IgnoreRules,
  ignoredConflicts,
  ignoredFields,
  leftOutOf,
  type RuledObject,
  readRules,
} from './ignored-fields.ts'
import { type OwnershipOptions, ownershipProblem } from './ownership.ts'
import { hasRestartTime, keepLaterRestarts } from './restarts.ts'
import type { Scalers } from './scalers.ts'
import { type Freed, TakeOver } from './take-over.ts'

/** Older than any object: a missing object is made, and one that somebody has made meanwhile is not touched. */
const absentVersion = '1'

export interface ApplierComponents {
  /** acts as the source's account */
  readonly lane: ApiLane
  readonly isHandedOver: OwnershipOptions['isHandedOver']
  readonly scalers: Pick<Scalers, 'of' | 'pathOf'>
}

export interface ApplierOptions extends Omit<OwnershipOptions, 'isHandedOver'> {
  readonly conflicts: 'force' | 'fail'
  /** absent: no field is left to others */
  readonly drift?: Pick<DriftPolicy, 'ignore' | 'addedBy' | 'removesAdded'>
}

export interface ApplyRequest {
  readonly key: ObjectKey
  readonly kind: ClusterKind
  /** with the source's marks */
  readonly object: ObjectTree
  /** undefined: it did not exist */
  readonly live: LiveObject | undefined
  /** uid of the object that this source has made; empty: not known */
  readonly uid: string
}

export interface Applied {
  readonly undone?: Undone | undefined
  /** fields of others that the apply has taken back */
  readonly overwritten?: readonly FieldConflict[]
  /** the first values that rules have left out */
  readonly leftOut?: readonly LeftOut[]
  /** reason for which no dry run was sent: nothing was compared */
  readonly uncompared?: string
  readonly live: LiveObject
  readonly object: KubernetesObject
}

export type ApplyOutcome = Applied | { readonly problem: ApplyProblem }

/** Applies one object after another, by server-side apply as the source's manager. */
export class Applier {
  readonly #components: ApplierComponents
  readonly #options: ApplierOptions
  readonly #takeOver: TakeOver
  readonly #rules: IgnoreRules
  /** managers whose added fields are removed; undefined: they stay */
  readonly #isAdder: ((manager: string) => boolean) | undefined

  constructor(components: ApplierComponents, options: ApplierOptions) {
    this.#components = components
    this.#options = options
    this.#rules = readRules(options.drift?.ignore ?? [], options.manager)
    this.#isAdder = options.drift?.removesAdded ? isAdderOf(options.drift) : undefined
    this.#takeOver = new TakeOver(components.lane, options)
  }

  /** @throws the connection's error, or the signal's reason */
  async apply(request: ApplyRequest, signal: AbortSignal): Promise<ApplyOutcome> {
    const path = objectPath(request.kind, request.key)
    let { live } = request
    const wasApplied = live !== undefined && live.fields !== ''
    const writers = new Set<string>()
    const ruled = await this.#ruledObject(path, request, signal)
    const ignoredOf = ignoredFields(this.#rules, ruled)
    let undo: (() => Promise<unknown>) | undefined
    let [undone, wayOut]: [Undone | undefined, string | undefined] = [undefined, undefined]
    const { isHandedOver } = this.#components
    const problemOf = (found: LiveObject) => ownershipProblem(found, request, { ...this.#options, isHandedOver })
    for (let attempt = 0; attempt < maxAttempts; attempt++) {
      const foreign = live && problemOf(live)
      if (foreign) return { problem: foreign }
      const leftReplicas = live && (await this.#leftReplicas(live, request, signal))
      const isAdder = this.#isAdder
      const hasAdded = isAdder !== undefined && live?.managers.some(isAdder) === true
      if (live && (leftReplicas !== undefined || hasAdded || this.#takeOver.isNeeded(live))) {
        const taken = await this.#takeOver.before(path, { problemOf, leftReplicas, ignoredOf, isAdder }, signal)
        if ('problem' in taken) return taken
        live = taken.live
        if (!taken.isDone) continue
        for (const manager of taken.from) writers.add(manager)
      }
      const outcome = await this.#applyOnce(path, request, { live, ruled }, signal)
      if (outcome !== 'stale' && live && 'problem' in outcome && isBesideOthers(outcome.problem) && !undo) {
        const freed = await this.#free(path, outcome.problem, ignoredOf, signal)
        if ('problem' in freed) return freed
        ;({ live, undo, undone, wayOut } = freed)
        continue
      }
      if (outcome !== 'stale' && 'problem' in outcome) await undo?.()
      if (outcome !== 'stale' && 'problem' in outcome)
        return { problem: { ...outcome.problem, ...(wayOut && { wayOut }), ...(undone && { freed: true }) } }
      if (outcome !== 'stale' && 'object' in outcome) {
        const again = [...(wasApplied ? writers : [])].map((manager) => ({ manager, field: '', subresource: '' }))
        return { ...outcome, undone, overwritten: [...again, ...(outcome.overwritten ?? [])] }
      }
      const read = await this.#read(path, signal)
      if ('problem' in read) return read
      live = read.live
    }
    return { problem: { kind: 'busy', text: `others have changed it ${maxAttempts} times while it was to be applied` } }
  }

  /** Returns the object for rules. With an index in a rule, the live one is read too: its items may have other places. */
  async #ruledObject(path: string, { key, object, live }: ApplyRequest, signal: AbortSignal): Promise<RuledObject> {
    if (!live || !hasIndexes(this.#rules, key)) return { key, objects: [object] }
    const { lane } = this.#components
    const { status, body } = await lane.json('GET', path, undefined, signal, { maxBytes: maxEventBytes })
    return { key, objects: status === 200 ? [object, body] : [object] }
  }

  /** Frees fields that prevent an apply: the next one removes them. @returns the problem: none can be freed */
  async #free(
    path: string,
    problem: ApplyProblem,
    ignoredOf: IgnoredOf,
    signal: AbortSignal,
  ): Promise<Freed | { problem: ApplyProblem }> {
    const { conflicts } = this.#options
    const found = await this.#takeOver.inTheWay(path, { places: problem.places ?? [], conflicts, ignoredOf }, signal)
    if (found && 'live' in found) return found
    return { problem: { ...problem, ...found } }
  }

  /**
   * Returns the path of the replicas if the object is scaled and its manifest has none. An apply would reset
   * replicas that the source owned before to the default.
   */
  async #leftReplicas(live: LiveObject, request: ApplyRequest, signal: AbortSignal): Promise<string | undefined> {
    const { key, kind, object } = request
    const { scalers } = this.#components
    const path = await scalers.pathOf(kind, signal)
    if (path === undefined || numberAt(object, path) !== undefined) return undefined
    const isOthers = path === live.replicasPath && !live.ownsReplicas
    if (isOthers && !this.#takeOver.isNeeded(live)) return undefined
    return (await scalers.of(key, signal)) === 'no' ? undefined : path
  }

  async #applyOnce(
    path: string,
    { key, kind, object, live: before }: ApplyRequest,
    { live, ruled }: { readonly live: LiveObject | undefined; readonly ruled: RuledObject },
    signal: AbortSignal,
  ): Promise<ApplyOutcome | 'stale'> {
    const made = await this.#toSend(path, object, live, signal)
    if (made === 'stale' || 'problem' in made) return made
    const conditional = conditionalOn(made.object, live?.resourceVersion ?? absentVersion)
    let answer = await this.#send(path, conditional, false, signal)
    const conflicts = answer.status === 409 ? conflictsIn(answer.body) : []
    let [overwritten, leftOut]: [readonly FieldConflict[], readonly LeftOut[]] = [[], []]
    if (conflicts.length > 0) {
      const replaced = before && this.#takeOver.replacedBy(before)
      const others = conflicts.filter(({ manager }) => !replaced?.has(manager)) // a dry run takes nothing over
      const ignored = ignoredConflicts(others, this.#rules, { ...ruled, object: conditional })
      leftOut = leftOutOf(ignored, key)
      const fields = new Set(ignored.map(({ conflict }) => conflict.field))
      const open = conflicts.filter(({ field }) => !fields.has(field))
      const scaled = await this.#scaledConflicts(open, { key, kind }, signal)
      overwritten = open.filter((conflict) => !scaled.includes(conflict))
      if (overwritten.length > 0 && this.#options.conflicts === 'fail')
        return { problem: ownedByOthers(key, overwritten) }
      const places = scaled.flatMap(({ field }) => placesNamed(conditional, field))
      const left = removeFields(conditional, [...ignored.map(({ place }) => place), ...places])
      answer = await this.#send(path, left, true, signal)
    }
    if (isStale(answer)) return 'stale'
    if (answer.status !== 200 && answer.status !== 201) return { problem: refusal(answer, path) }
    const applied = answer.body as KubernetesObject
    const outcome = await this.#takeOver.after(path, applied, ignoredFields(this.#rules, { key }), signal)
    return 'problem' in outcome ? outcome : { ...outcome, overwritten, ...(leftOut.length > 0 && { leftOut }) }
  }

  /** Returns the conflicts about replicas that an autoscaler may have set: these stay. */
  async #scaledConflicts(
    conflicts: readonly FieldConflict[],
    { key, kind }: Pick<ApplyRequest, 'key' | 'kind'>,
    signal: AbortSignal,
  ): Promise<readonly FieldConflict[]> {
    if (conflicts.length === 0) return []
    const { scalers } = this.#components
    const path = (await scalers.pathOf(kind, signal)) ?? usualReplicasPath
    const found = conflicts.filter((conflict) => areReplicas(conflict, path))
    return found.length > 0 && (await scalers.of(key, signal)) !== 'no' ? found : []
  }

  /**
   * Makes the object to send. It has the later one of Git's and the live time of a restart: an earlier time would
   * restart all Pods.
   */
  async #toSend(
    path: string,
    object: ObjectTree,
    live: LiveObject | undefined,
    signal: AbortSignal,
  ): Promise<{ object: ObjectTree } | { problem: ApplyProblem } | 'stale'> {
    if (!live || !hasRestartTime(object)) return { object }
    const answer = await this.#components.lane.json('GET', path, undefined, signal, { maxBytes: maxEventBytes })
    if (answer.status === 404) return 'stale'
    if (answer.status !== 200) return { problem: refusal(answer, path) }
    const isSame = textAt(answer.body, 'metadata.resourceVersion') === live.resourceVersion
    return isSame ? { object: keepLaterRestarts(object, answer.body) } : 'stale'
  }

  #send(path: string, object: ObjectTree, force: boolean, signal: AbortSignal) {
    const target = withQuery(path, { fieldManager: this.#options.manager, force })
    const options = { contentType: 'application/apply-patch+yaml', maxBytes: maxEventBytes }
    return this.#components.lane.json('PATCH', target, object, signal, options)
  }

  async #read(
    path: string,
    signal: AbortSignal,
  ): Promise<{ live: LiveObject | undefined } | { problem: ApplyProblem }> {
    const answer = await this.#components.lane.json('GET', path, undefined, signal, {
      accept: metadataOnly.object,
      maxBytes: maxEventBytes,
    })
    if (answer.status === 404) return { live: undefined }
    if (answer.status !== 200) return { problem: refusal(answer, path) }
    return { live: liveObjectOf(answer.body as KubernetesObject, this.#options.manager) }
  }
}

/** True if fields beside the manifest may have caused the refusal. */
function isBesideOthers({ kind, places = [] }: ApplyProblem): boolean {
  return kind === 'invalid' && places.length > 0
}

function conditionalOn(object: ObjectTree, resourceVersion: string): ObjectTree {
  return { ...object, metadata: { ...(object.metadata as object), resourceVersion } }
}

function ownedByOthers(key: ObjectKey, conflicts: readonly FieldConflict[]): ApplyProblem {
  const owned = new Set(conflicts.map(({ field, manager }) => `${shownField(key, field)} (${manager})`))
  const names = [...owned].join(', ')
  return { kind: 'conflict', text: `fields of others, and conflicts: fail leaves them: ${names}; force takes them` }
}
