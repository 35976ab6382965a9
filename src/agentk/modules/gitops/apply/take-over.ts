import { type KubernetesObject, textAt } from '../../../../kubernetes/object.ts'
import { withQuery } from '../../../../kubernetes/path.ts'
import type { ApiLane } from '../../../cluster/api-lanes.ts'
import { metadataOnly } from '../../../cluster/object-list.ts'
import { maxEventBytes } from '../../../cluster/watch-request.ts'
import { withDisowned } from '../live/disowned-fields.ts'
import { type LiveObject, liveObjectOf } from '../live/live-object.ts'
import {
  beforeFirstApply,
  entriesOf,
  type ManagedEntry,
  relieved,
  takenOver,
  withoutReplicas,
} from '../live/managed-fields.ts'
import { type ApplyProblem, isStale, maxAttempts, refusal } from '../live/refusal.ts'
import type { Undone } from '../round.ts'

/** Managers of what wrote manifests before us: the stock agent, `kubectl apply`. */
const predecessors = ['agentk', 'kubectl-client-side-apply']

export interface TakeOverOptions {
  /** of the source: also its owner annotation's value */
  readonly id: string
  readonly manager: string
  /** inventories and managers */
  readonly adopt: readonly string[]
}

export interface TakeOverBefore {
  readonly problemOf: (live: LiveObject) => ApplyProblem | undefined
  /** where the number of replicas stands that is to stay; undefined: it is Git's */
  readonly leftReplicas: string | undefined
}

export interface Freed {
  readonly live: LiveObject
  /** for an apply that is refused all the same */
  readonly undo: () => Promise<unknown>
  readonly undone: Undone
  /** for an apply that is refused all the same: what people can do */
  readonly wayOut?: string
}

/** What others have applied becomes ours, so that what leaves the manifest leaves the object. */
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

  /** Managers whose fields are to become ours. */
  predecessorsOf(live: Pick<LiveObject, 'managers' | 'owner'>): readonly string[] {
    const from = this.#from(live)
    return live.managers.filter((manager) => from.has(manager))
  }

  /** Managers of predecessors, of what is adopted, and of the source whose object it was. */
  #from({ owner }: Pick<LiveObject, 'owner'>): ReadonlySet<string> {
    const { id, adopt } = this.#options
    const inventories = owner === '' || owner === id ? adopt : [...adopt, owner]
    const from = new Set([...predecessors, ...adopt, ...inventories.map((inventory) => `agentk-${inventory}`)])
    from.delete(this.#manager)
    from.delete(beforeFirstApply)
    return from
  }

  /**
   * Before an apply. Nothing of the object changes but who owns it.
   *
   * @param options.problemOf - why what it is by now is not ours
   * @param options.leftReplicas - the manifest has no number there, and an autoscaler has: it stays
   * @returns `isDone` false: others have changed it, `live` is what it was
   */
  async before(
    path: string,
    { problemOf, leftReplicas }: TakeOverBefore,
    signal: AbortSignal,
  ): Promise<{ live: LiveObject | undefined; isDone: boolean } | { problem: ApplyProblem }> {
    const read = await this.#read(path, signal)
    if (!('object' in read)) return read
    const live = liveObjectOf(read.object, this.#manager)
    const problem = problemOf(live)
    if (problem) return { problem }
    const found = entriesOf(read.object)
    const taken = takenOver(found, { manager: this.#manager, from: this.#from(live) })
    const left = leftReplicas === undefined ? undefined : withoutReplicas(taken ?? found, this.#manager, leftReplicas)
    const entries = left ?? taken
    if (!entries) return { live, isDone: true }
    const answer = await this.#write(path, read.object, entries, signal)
    if (isStale(answer)) return { live, isDone: false }
    if (answer.status !== 200) return { problem: refusal(answer) }
    return { live: liveObjectOf(answer.body as KubernetesObject, this.#manager), isDone: true }
  }

  /**
   * After an apply that was refused for what stands beside it: defaults that nobody owns, and what people have changed in
   * place, become ours, so that they go with the next apply.
   *
   * @param options.places - that the API server names
   * @returns undefined: nothing is in the way. `undo`: the apply is refused all the same. `wayOut`: it is to stay, and what
   * people can do
   */
  async inTheWay(
    path: string,
    { places, conflicts }: { readonly places: readonly string[]; readonly conflicts: 'force' | 'fail' },
    signal: AbortSignal,
  ): Promise<Freed | { wayOut: string } | undefined> {
    const whole = await this.#lane.json('GET', path, undefined, signal, { maxBytes: maxEventBytes })
    if (whole.status !== 200) return undefined
    const object = whole.body as KubernetesObject
    const found = withDisowned(object, entriesOf(object), { manager: this.#manager, places })
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

  /** After an apply: what the API server has made of an object whose owners were not known. */
  async after(
    path: string,
    applied: KubernetesObject,
    signal: AbortSignal,
  ): Promise<{ live: LiveObject; object: KubernetesObject } | { problem: ApplyProblem }> {
    let object = applied
    for (let attempt = 0; attempt < maxAttempts; attempt++) {
      const entries = relieved(entriesOf(object), this.#manager)
      if (!entries) return { live: liveObjectOf(object, this.#manager), object: applied }
      const answer = await this.#write(path, object, entries, signal)
      if (answer.status === 200)
        return { live: liveObjectOf(answer.body as KubernetesObject, this.#manager), object: applied }
      if (!isStale(answer)) return { problem: refusal(answer) }
      const read = await this.#read(path, signal)
      if (!('object' in read)) return 'problem' in read ? read : { problem: { kind: 'busy', text: 'it was deleted' } }
      object = read.object
    }
    return { problem: { kind: 'busy', text: `others have changed it ${maxAttempts} times while it was taken over` } }
  }

  async #read(
    path: string,
    signal: AbortSignal,
  ): Promise<{ object: KubernetesObject } | { live: undefined; isDone: true } | { problem: ApplyProblem }> {
    const options = { accept: metadataOnly.object, maxBytes: maxEventBytes }
    const answer = await this.#lane.json('GET', path, undefined, signal, options)
    if (answer.status === 404) return { live: undefined, isDone: true }
    return answer.status === 200 ? { object: answer.body as KubernetesObject } : { problem: refusal(answer) }
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
