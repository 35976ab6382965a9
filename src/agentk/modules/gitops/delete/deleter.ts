import type { ObjectKey } from '../../../../kubernetes/key.ts'
import { type KubernetesObject, textAt } from '../../../../kubernetes/object.ts'
import { objectPath } from '../../../../kubernetes/path.ts'
import type { Clock } from '../../../../lib/clock.ts'
import { Deadline } from '../../../../lib/deadline.ts'
import { KasError } from '../../../../lib/errors.ts'
import { Turns } from '../../../../lib/turns.ts'
import { maxObjects } from '../../../../proto/gitops/limits.ts'
import type { ApiLane } from '../../../cluster/background-requests.ts'
import { metadataOnly } from '../../../cluster/object-list.ts'
import { maxEventBytes } from '../../../cluster/watch-request.ts'
import type { ClusterKind, ClusterKinds } from '../live/cluster-kinds.ts'
import { beingDeleted, holdsOf } from '../live/deletion.ts'
import { type LiveObject, liveObjectOf } from '../live/live-object.ts'
import type { ObjectWaits } from '../live/object-waits.ts'
import { maxAttempts, refusal } from '../live/refusal.ts'
import { refuserOf } from '../manifests/kind-ranks.ts'
import { isParent } from '../manifests/parents.ts'
import type { InventoryEntry } from '../round.ts'
import type { SourceOptions } from '../source-options.ts'

/** Limit of concurrent deletions, as many as a lane sends: a waiting deletion can still be dropped. */
const maxDeleting = 32

export interface DeleterComponents {
  /** acts as the source's account */
  readonly accountLane: ApiLane
  readonly waits: ObjectWaits
  readonly kinds: ClusterKinds
  readonly clock: Clock
}

export interface DeletionListener {
  /** called for each object, with the reason for which it still exists; undefined: it is deleted */
  readonly onEnd: (entry: InventoryEntry, survives: string | undefined) => void
  /** called right before a namespace or a definition is deleted. @returns the reason to keep it; undefined: none */
  readonly checkParent: (key: ObjectKey, signal: AbortSignal) => Promise<string | undefined>
}

export type DeleterOptions = Pick<SourceOptions, 'manager' | 'prunePropagationPolicy' | 'pruneTimeoutMs'>

export interface Deletable {
  readonly entry: InventoryEntry
  /** object for which the deletion was decided */
  readonly live: LiveObject
}

const left = 'it stays: a newer commit has come, or somebody asks otherwise'
const policies = { orphan: 'Orphan', background: 'Background', foreground: 'Foreground' } as const

/** Deletes objects after the decision, and waits until they no longer exist. */
export class Deleter {
  readonly #components: DeleterComponents
  readonly #options: DeleterOptions
  readonly #turns = new Turns({
    maxRunning: maxDeleting,
    maxWaiting: maxObjects,
    tooMany: () =>
      new KasError({
        code: 'TOO_MANY_STREAMS',
        name: 'waiting_deletions',
        limit: maxObjects,
        what: 'waiting deletions',
      }),
  })

  constructor(components: DeleterComponents, options: DeleterOptions) {
    this.#components = components
    this.#options = options
  }

  /**
   * Deletes in the reverse order of apply: higher waves first, and objects before their namespace or definition.
   * An object that stays blocks the deletion of those after it.
   *
   * @param superseded - ends the waits, nothing more begins. @throws the connection's error, or the signal's reason
   */
  async deleteAll(
    deletables: readonly Deletable[],
    { onEnd, checkParent }: DeletionListener,
    superseded: AbortSignal,
    signal: AbortSignal,
  ): Promise<void> {
    let holder: string | undefined
    for (const stage of stages(deletables)) {
      if (superseded.aborted) return
      if (holder !== undefined) {
        for (const { entry } of stage) onEnd(entry, `${holder} is to go before it`)
        continue
      }
      const ends = stage.map(async ({ entry, live }) => {
        const stays = isParent(entry.key) ? await checkParent(entry.key, signal) : undefined
        const survives = stays ?? (await this.remove(entry, live, superseded, signal))
        onEnd(entry, survives)
        return survives === undefined ? undefined : `${entry.key.kind} ${entry.key.name}`
      })
      // all deletions have ended before an error is thrown: none goes on in the background
      const settled = await Promise.allSettled(ends)
      for (const end of settled) if (end.status === 'rejected') throw end.reason
      holder = settled.map((end) => (end.status === 'fulfilled' ? end.value : undefined)).find(Boolean)
    }
  }

  /** @returns the reason for which it still exists; undefined: it does not */
  async remove(
    entry: Pick<InventoryEntry, 'key' | 'version'>,
    decided: LiveObject,
    superseded: AbortSignal,
    signal: AbortSignal,
  ): Promise<string | undefined> {
    const { kinds } = this.#components
    const kind = kinds.find(entry.key, entry.version) ?? kinds.find(entry.key)
    if (!kind) return 'nobody serves its kind now'
    const path = objectPath(kind, entry.key)
    let live = decided
    for (let attempt = 0; attempt < maxAttempts; attempt++) {
      const answer = await this.#delete(path, live, superseded, signal)
      if (answer === undefined) return left
      if (answer.status === 404) return undefined
      if (answer.status === 200 || answer.status === 202) {
        return await this.#awaitDeleted(kind, entry, live.uid, superseded, signal)
      }
      if (answer.status !== 409) return refusal(answer, path).text
      const read = await this.#read(path, signal)
      if (typeof read === 'string') return read
      if (!read || read.uid !== decided.uid) return undefined
      const changed = this.#isOther(read, decided)
      if (changed) return changed
      live = read
    }
    return `others have changed it ${maxAttempts} times while it was to be deleted`
  }

  /** @returns undefined: nothing was sent, since the round is superseded */
  async #delete(path: string, { uid, resourceVersion }: LiveObject, superseded: AbortSignal, signal: AbortSignal) {
    const propagationPolicy = policies[this.#options.prunePropagationPolicy]
    const body = { kind: 'DeleteOptions', apiVersion: 'v1', preconditions: { uid, resourceVersion }, propagationPolicy }
    const endTurn = await this.#turns.take(this, signal)
    try {
      if (superseded.aborted) return undefined
      return await this.#components.accountLane.json('DELETE', path, body, signal, { maxBytes: maxEventBytes })
    } finally {
      endTurn()
    }
  }

  async #read(path: string, signal: AbortSignal): Promise<LiveObject | string | undefined> {
    const options = { accept: metadataOnly.object, maxBytes: maxEventBytes }
    const answer = await this.#components.accountLane.json('GET', path, undefined, signal, options)
    if (answer.status === 404) return undefined
    if (answer.status !== 200) return refusal(answer, path).text
    return liveObjectOf(answer.body as KubernetesObject, this.#options.manager)
  }

  /** Returns a reason if the object has changed so that the decision no longer applies. */
  #isOther(live: LiveObject, decided: LiveObject): string | undefined {
    if (live.owner !== decided.owner) return 'its owner annotation has changed meanwhile'
    if (live.isControlled) return 'a controller keeps it'
    return live.prune === decided.prune ? undefined : 'its annotations have changed meanwhile'
  }

  async #awaitDeleted(
    kind: ClusterKind,
    { key }: Pick<InventoryEntry, 'key'>,
    uid: string,
    superseded: AbortSignal,
    signal: AbortSignal,
  ): Promise<string | undefined> {
    const { waits, clock } = this.#components
    const { pruneTimeoutMs } = this.#options
    const deadline = new Deadline({ ms: pruneTimeoutMs, clock, signals: [signal, superseded] })
    let holds = ''
    const read = (object: KubernetesObject | undefined) => {
      if (!object || textAt(object, 'metadata.uid') !== uid) return true
      holds = holdsOf(object)
      return undefined
    }
    try {
      await waits.until(kind, key, read, deadline.signal)
      return undefined
    } catch (error) {
      if (!signal.aborted && superseded.aborted) return beingDeleted(holds)
      if (signal.aborted || !deadline.isPast) throw error
      return beingDeleted(holds, `, and not gone after ${Math.round(pruneTimeoutMs / 1000)} s`)
    } finally {
      deadline.end()
    }
  }
}

/** Groups the objects in the order of their deletion. */
function stages(deletables: readonly Deletable[]): readonly (readonly Deletable[])[] {
  const placed = deletables.toSorted((one, other) => compare(placeOf(one.entry), placeOf(other.entry)))
  const found: Deletable[][] = []
  let last = ''
  for (const deletable of placed) {
    const place = placeOf(deletable.entry).join()
    if (place !== last) found.push([])
    last = place
    found.at(-1)?.push(deletable)
  }
  return found
}

/** Returns the place in that order: objects that can refuse others go first, namespaces and definitions last. */
function placeOf({ key, wave }: InventoryEntry): readonly [number, number] {
  if (refuserOf(key) !== undefined) return [-1, -wave]
  return [isParent(key) ? 1 : 0, -wave]
}

function compare([one, oneWave]: readonly [number, number], [other, otherWave]: readonly [number, number]): number {
  return one - other || oneWave - otherWave
}
