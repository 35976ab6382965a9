import { type KubernetesObject, textAt } from '../../../../kubernetes/object.ts'
import { withQuery } from '../../../../kubernetes/path.ts'
import type { ApiLane } from '../../../cluster/background-requests.ts'
import { metadataOnly } from '../../../cluster/object-list.ts'
import { maxEventBytes } from '../../../cluster/watch-request.ts'
import { addedTaken } from '../live/added-fields.ts'
import { withDisowned } from '../live/disowned-fields.ts'
import { type LiveObject, liveObjectOf } from '../live/live-object.ts'
import {
  beforeFirstApply,
  entriesOf,
  type IgnoredOf,
  type ManagedEntry,
  managersOf,
  nothingIgnored,
  relieved,
  takenOver,
  withoutReplicas,
} from '../live/managed-fields.ts'
import { isNestedTooDeeply } from '../live/nesting.ts'
import { type ApplyProblem, isStale, maxAttempts, refusal } from '../live/refusal.ts'
import type { Undone } from '../round.ts'

const byKubectl = 'kubectl-client-side-apply'
/** Managers that applied manifests before agentk: the stock agent, `kubectl apply`. */
const predecessors = ['agentk', byKubectl]

export interface TakeOverOptions {
  /** id of the source, and value of its owner annotation */
  readonly id: string
  readonly manager: string
  /** ids of inventories, and managers */
  readonly adopt: readonly string[]
}

export interface TakeOverBefore {
  readonly problemOf: (live: LiveObject) => ApplyProblem | undefined
  /** path of the replicas that have to stay; undefined: Git sets them */
  readonly leftReplicas: string | undefined
  /** fields that rules of the source leave to their managers */
  readonly ignoredOf?: IgnoredOf
  /** true for managers whose added fields the apply removes; absent: they stay */
  readonly isAdder?: ((manager: string) => boolean) | undefined
}

export interface TakenBefore {
  readonly live: LiveObject | undefined
  /** false: others have changed the object; it is to be tried again */
  readonly isDone: boolean
  /** managers whose fields were taken over */
  readonly from: readonly string[]
}

export interface Freed {
  readonly live: LiveObject
  /** reverts the change of owners if the apply is refused all the same */
  readonly undo: () => Promise<unknown>
  readonly undone: Undone
  /** advice for people if the apply is refused all the same */
  readonly wayOut?: string
}

/** Takes over fields that others have applied, so that fields that leave the manifest leave the object too. */
export class TakeOver {
  readonly #lane: ApiLane
  readonly #options: TakeOverOptions
  readonly #manager: string

  constructor(lane: ApiLane, options: TakeOverOptions) {
    this.#lane = lane
    this.#options = options
    this.#manager = options.manager
  }

  isNeeded(live: Pick<LiveObject, 'managers' | 'owner'>): boolean {
    return this.predecessorsOf(live).length > 0
  }

  /** Returns the managers whose fields are taken over. */
  predecessorsOf(live: Pick<LiveObject, 'managers' | 'owner'>): readonly string[] {
    const from = this.#from(live)
    return live.managers.filter((manager) => from.has(manager))
  }

  /** Returns the managers of predecessors, of adopted inventories, and of the source that owned the object. */
  #from({ owner }: Pick<LiveObject, 'owner'>): ReadonlySet<string> {
    const { id, adopt } = this.#options
    const inventories = owner === '' || owner === id ? adopt : [...adopt, owner]
    const from = new Set([...predecessors, ...adopt, ...inventories.map((inventory) => `agentk-${inventory}`)])
    from.delete(this.#manager)
    from.delete(beforeFirstApply)
    return from
  }

  /**
   * Returns the managers whose fields are taken over whatever a rule says: the source replaces them. People may still run
   * `kubectl apply` after the source has applied the object, so its manager is then none of them.
   */
  replacedBy(live: Pick<LiveObject, 'owner' | 'fields'>): ReadonlySet<string> {
    const from = new Set(this.#from(live))
    if (live.fields !== '' && !this.#options.adopt.includes(byKubectl)) from.delete(byKubectl)
    return from
  }

  /**
   * Takes over fields before an apply. It changes nothing of the object but the owners of its fields.
   *
   * @param options.problemOf - returns the reason for which the source may not apply the current object
   * @param options.leftReplicas - path of replicas that the manifest does not set and an autoscaler does: they stay
   * @param options.ignoredOf - fields that stay with their managers, except those of `replacedBy`
   * @param options.isAdder - managers that have added fields: the apply removes them
   * @returns `isDone` false: others have changed the object; `live` is its earlier state
   */
  async before(
    path: string,
    { problemOf, leftReplicas, ignoredOf = nothingIgnored, isAdder }: TakeOverBefore,
    signal: AbortSignal,
  ): Promise<TakenBefore | { problem: ApplyProblem }> {
    const read = await this.#read(path, signal)
    if (!('object' in read)) return read
    const live = liveObjectOf(read.object, this.#manager)
    const problem = problemOf(live)
    if (problem) return { problem }
    const found = entriesOf(read.object)
    const replaced = this.replacedBy(live)
    const keptOf: IgnoredOf = (entry) => (replaced.has(textAt(entry, 'manager')) ? {} : ignoredOf(entry))
    const taken = takenOver(found, { manager: this.#manager, from: this.#from(live), ignoredOf: keptOf })
    const kept = new Set(taken)
    const from = managersOf(taken ? found.filter((entry) => !kept.has(entry)) : [])
    const left = leftReplicas === undefined ? undefined : withoutReplicas(taken ?? found, this.#manager, leftReplicas)
    const freed = isAdder && addedTaken(left ?? taken ?? found, { manager: this.#manager, isAdder, ignoredOf })
    const entries = freed ?? left ?? taken
    if (!entries) return { live, isDone: true, from }
    const answer = await this.#write(path, read.object, entries, signal)
    if (isStale(answer)) return { live, isDone: false, from: [] }
    if (answer.status !== 200) return { problem: refusal(answer, path) }
    const written = liveObjectOf(answer.body as KubernetesObject, this.#manager)
    return { live: written, isDone: true, from: from.filter((manager) => manager !== this.#manager) }
  }

  /**
   * Takes over fields for which the API server has refused an apply: defaults that nobody owns, and changes in place.
   * The next apply then removes them.
   *
   * @param options.places - fields that the API server names
   * @returns undefined: no field is in the way. `undo`: for an apply that is refused all the same. `wayOut`: the fields
   * stay, with advice for people
   */
  async inTheWay(
    path: string,
    {
      places,
      conflicts,
      ignoredOf,
    }: { readonly places: readonly string[]; readonly conflicts: 'force' | 'fail'; readonly ignoredOf?: IgnoredOf },
    signal: AbortSignal,
  ): Promise<Freed | { wayOut: string } | undefined> {
    const whole = await this.#lane.json('GET', path, undefined, signal, { maxBytes: maxEventBytes })
    if (whole.status !== 200) return undefined
    const object = whole.body as KubernetesObject
    if (isNestedTooDeeply(object)) return undefined // somebody has made it so: the refusal stays as it is
    const found = withDisowned(object, entriesOf(object), { manager: this.#manager, places, ignoredOf })
    if (!found) return undefined
    const { from, others, fields } = found
    const where = fields.join(', ')
    const adopting = {
      wayOut: `${others.join(', ')} has changed ${where}: adopt: [${others.join(', ')}] takes that over`,
    }
    if (found.isEmpty) return adopting
    if (from.length > 0 && conflicts === 'fail')
      return { wayOut: `${from.join(', ')} has changed ${where}, and conflicts: fail leaves that: force undoes it` }
    const answer = await this.#write(path, object, found.entries, signal)
    if (answer.status !== 200) return undefined
    const written = answer.body as KubernetesObject
    const undo = () => this.#write(path, written, entriesOf(object), signal)
    return {
      live: liveObjectOf(written, this.#manager),
      undo,
      undone: { by: from, fields },
      ...(others.length > 0 && adopting),
    }
  }

  /**
   * Removes the applied fields from `before-first-apply`, which owns them too if the owners were unknown.
   *
   * @param ignoredOf - as `liveObjectOf`
   */
  async after(
    path: string,
    applied: KubernetesObject,
    ignoredOf: IgnoredOf,
    signal: AbortSignal,
  ): Promise<{ live: LiveObject; object: KubernetesObject } | { problem: ApplyProblem }> {
    let object = applied
    for (let attempt = 0; attempt < maxAttempts; attempt++) {
      const entries = relieved(entriesOf(object), this.#manager)
      if (!entries) return { live: liveObjectOf(object, this.#manager, ignoredOf), object: applied }
      const answer = await this.#write(path, object, entries, signal)
      if (answer.status === 200)
        return { live: liveObjectOf(answer.body as KubernetesObject, this.#manager, ignoredOf), object: applied }
      if (!isStale(answer)) return { problem: refusal(answer, path) }
      const read = await this.#read(path, signal)
      if (!('object' in read)) return 'problem' in read ? read : { problem: { kind: 'busy', text: 'it was deleted' } }
      object = read.object
    }
    return { problem: { kind: 'busy', text: `others have changed it ${maxAttempts} times while it was taken over` } }
  }

  async #read(
    path: string,
    signal: AbortSignal,
  ): Promise<{ object: KubernetesObject } | (TakenBefore & { live: undefined }) | { problem: ApplyProblem }> {
    const options = { accept: metadataOnly.object, maxBytes: maxEventBytes }
    const answer = await this.#lane.json('GET', path, undefined, signal, options)
    if (answer.status === 404) return { live: undefined, isDone: true, from: [] }
    return answer.status === 200 ? { object: answer.body as KubernetesObject } : { problem: refusal(answer, path) }
  }

  #write(path: string, object: KubernetesObject, entries: readonly ManagedEntry[], signal: AbortSignal) {
    const patch = [
      { op: 'test', path: '/metadata/resourceVersion', value: textAt(object, 'metadata.resourceVersion') },
      { op: 'replace', path: '/metadata/managedFields', value: entries },
    ]
    const options = { contentType: 'application/json-patch+json', accept: metadataOnly.object, maxBytes: maxEventBytes }
    const target = withQuery(path, { fieldManager: this.#manager })
    return this.#lane.json('PATCH', target, patch, signal, options)
  }
}
