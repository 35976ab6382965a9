import type { ObjectKey } from '../../../../kubernetes/key.ts'
import { type KubernetesObject, numberAt, textAt } from '../../../../kubernetes/object.ts'
import { objectPath, withQuery } from '../../../../kubernetes/path.ts'
import type { ApiLane } from '../../../cluster/background-requests.ts'
import { metadataOnly } from '../../../cluster/object-list.ts'
import { maxEventBytes } from '../../../cluster/watch-request.ts'
import type { ClusterKind } from '../live/cluster-kinds.ts'
import { type LiveObject, liveObjectOf } from '../live/live-object.ts'
import { usualReplicasPath } from '../live/managed-fields.ts'
import { type ApplyProblem, isStale, maxAttempts, refusal } from '../live/refusal.ts'
import type { ObjectTree } from '../manifests/manifest.ts'
import { shownField } from '../manifests/secrets.ts'
import type { FieldConflict, Undone } from '../round.ts'
import { areReplicas, conflictsIn, withoutField } from './conflicts.ts'
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

  constructor(components: ApplierComponents, options: ApplierOptions) {
    this.#components = components
    this.#options = options
    this.#takeOver = new TakeOver(components.lane, options)
  }

  /** @throws the connection's error, or the signal's reason */
  async apply(request: ApplyRequest, signal: AbortSignal): Promise<ApplyOutcome> {
    const path = objectPath(request.kind, request.key)
    let { live } = request
    const writers = live && live.fields !== '' ? this.#takeOver.predecessorsOf(live) : []
    const again = writers.map((manager) => ({ manager, field: '', subresource: '' }))
    let undo: (() => Promise<unknown>) | undefined
    let [undone, wayOut]: [Undone | undefined, string | undefined] = [undefined, undefined]
    const { isHandedOver } = this.#components
    const problemOf = (found: LiveObject) => ownershipProblem(found, request, { ...this.#options, isHandedOver })
    for (let attempt = 0; attempt < maxAttempts; attempt++) {
      const foreign = live && problemOf(live)
      if (foreign) return { problem: foreign }
      const leftReplicas = live && (await this.#leftReplicas(live, request, signal))
      if (live && (leftReplicas !== undefined || this.#takeOver.isNeeded(live))) {
        const taken = await this.#takeOver.before(path, { problemOf, leftReplicas }, signal)
        if ('problem' in taken) return taken
        live = taken.live
        if (!taken.isDone) continue
      }
      const outcome = await this.#applyOnce(path, request, live, signal)
      if (outcome !== 'stale' && live && 'problem' in outcome && isBesideOthers(outcome.problem) && !undo) {
        const freed = await this.#free(path, outcome.problem, signal)
        if ('problem' in freed) return freed
        ;({ live, undo, undone, wayOut } = freed)
        continue
      }
      if (outcome !== 'stale' && 'problem' in outcome) await undo?.()
      if (outcome !== 'stale' && 'problem' in outcome)
        return { problem: { ...outcome.problem, ...(wayOut && { wayOut }) } }
      if (outcome !== 'stale' && 'object' in outcome)
        return { ...outcome, undone, overwritten: [...again, ...(outcome.overwritten ?? [])] }
      const read = await this.#read(path, signal)
      if ('problem' in read) return read
      live = read.live
    }
    return { problem: { kind: 'busy', text: `others have changed it ${maxAttempts} times while it was to be applied` } }
  }

  /** Frees fields that prevent an apply: the next one removes them. @returns the problem: none can be freed */
  async #free(path: string, problem: ApplyProblem, signal: AbortSignal): Promise<Freed | { problem: ApplyProblem }> {
    const { conflicts } = this.#options
    const found = await this.#takeOver.inTheWay(path, { places: problem.places ?? [], conflicts }, signal)
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
    { key, kind, object }: ApplyRequest,
    live: LiveObject | undefined,
    signal: AbortSignal,
  ): Promise<ApplyOutcome | 'stale'> {
    const made = await this.#toSend(path, object, live, signal)
    if (made === 'stale' || 'problem' in made) return made
    const conditional = conditionalOn(made.object, live?.resourceVersion ?? absentVersion)
    let answer = await this.#send(path, conditional, false, signal)
    const conflicts = answer.status === 409 ? conflictsIn(answer.body) : []
    let overwritten: readonly FieldConflict[] = []
    if (conflicts.length > 0) {
      const { scalers } = this.#components
      const replicas = (await scalers.pathOf(kind, signal)) ?? usualReplicasPath
      const isOfScaler = (conflict: FieldConflict) => areReplicas(conflict, replicas)
      const isScaled = conflicts.some(isOfScaler) && (await scalers.of(key, signal)) !== 'no'
      const isLeft = (conflict: FieldConflict) => isScaled && isOfScaler(conflict)
      const rest = conflicts.filter((conflict) => !isLeft(conflict))
      if (rest.length > 0 && this.#options.conflicts === 'fail') return { problem: ownedByOthers(key, rest) }
      const left = conflicts.filter(isLeft).reduce(withoutField, conditional)
      answer = await this.#send(path, left, true, signal)
      overwritten = rest
    }
    if (isStale(answer)) return 'stale'
    if (answer.status !== 200 && answer.status !== 201) return { problem: refusal(answer, path) }
    const outcome = await this.#takeOver.after(path, answer.body as KubernetesObject, signal)
    return 'problem' in outcome ? outcome : { ...outcome, overwritten }
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
