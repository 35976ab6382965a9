import type { Clock } from '../../../../lib/clock.ts'
import { Counter } from '../../../../lib/counter.ts'
import { withDeadline } from '../../../../lib/deadline.ts'
import { errorText, KasError } from '../../../../lib/errors.ts'
import { LimitedLog } from '../../../../lib/limited-log.ts'
import type { Logger } from '../../../../lib/log.ts'
import { pause } from '../../../../lib/pause.ts'
import { linkedController } from '../../../../lib/signals.ts'
import { Turns } from '../../../../lib/turns.ts'
import type { ApiClient } from '../../../cluster/api-client.ts'
import { ApiLiveness } from '../../../cluster/api-liveness.ts'
import { DutyCycle } from '../../../cluster/duty-cycle.ts'
import { type WatchTimes, watchTimes } from '../../../cluster/object-watch.ts'
import { WatchLists } from '../../../cluster/watch-lists.ts'
import type { ObjectSink, ReadonlyRecords } from '../store/record.ts'
import type { Rules } from '../store/rules.ts'
import { bothSinks, normalEvidence, warnings } from './events.ts'
import { LiveWatches } from './failing-time.ts'
import { KindWatch } from './kind-watch.ts'
import type { FollowedKind, GroupOrder, PartWatchComponents } from './part-watch.ts'
import { Refusals } from './refusals.ts'
import { type Away, Registrations } from './registrations.ts'
import { chooseKinds, discover, type Follow, isMetadataEnough, type Served, type ServedKind } from './served-kinds.ts'
import { kindsAway, UnfollowedKinds } from './unfollowed-kinds.ts'

export interface KindsComponents {
  /** client of views alone: each watch is a connection */
  readonly api: Pick<ApiClient, 'json' | 'send'>
  readonly sink: ObjectSink & Pick<ReadonlyRecords, 'get'>
  /** receives Warnings */
  readonly events: ObjectSink
  /** also receives Warnings, and Normal events that show why objects are not well; absent: nobody needs them */
  readonly evidence?: ObjectSink
  readonly log: Logger
  /** ms since 1970 */
  readonly clock: Clock
  readonly random: () => number
}

export interface KindsOptions {
  readonly follow: Partial<Follow>
  /** default: no rule reads more than the metadata of a kind without a status */
  readonly rules?: Pick<Rules, 'wantsStatus' | 'ready'>
  readonly maxKinds?: number
  readonly maxWatches?: number
  readonly times?: Partial<WatchTimes>
}

interface Followed {
  readonly served: ServedKind
  stop(): void
}

const defaultMaxKinds = 300
const defaultMaxWatches = 500
const listsAtOnce = 4
/** Time from one discovery to the next, a fifth less or more. ms */
const pollMs = 300_000
/**
 * A kind that has just come is refused (429) for a moment, so each kind is tried often. This costs little: a server
 * that is away is asked once for all kinds. ms
 */
const retries = { firstRetryMs: 250, maxRetryMs: 5000 }
const discoveryTimeoutMs = 30_000
/**
 * Pauses before discoveries after a change of registrations, which takes several steps; discovery follows a moment
 * later. Both are within the 2 s in which a new kind is followed. ms
 */
const settleMs = [300, 1000]

/**
 * Discovers the kinds that the API server serves, and follows each as long as it is served.
 *
 * @see doc/guide/views.md
 */
export class Kinds {
  readonly #components: KindsComponents
  readonly #options: KindsOptions
  readonly #follow: Follow
  readonly #times: WatchTimes
  readonly #shared: Omit<PartWatchComponents, 'sink' | 'groups'>
  /** place of a group in the server's order */
  #places: ReadonlyMap<string, number> = new Map()
  readonly #registrations: Registrations
  readonly #groups: GroupOrder = {
    kindOf: (uid) => this.#components.sink.get(uid)?.kind,
    comesBefore: (group, other) => this.#placeOf(group) < this.#placeOf(other),
  }
  /** by `group/Kind` */
  readonly #followed = new Map<string, Followed>()
  readonly #unfollowed: UnfollowedKinds
  /** all kinds that are served, also those that are not followed */
  #served: readonly ServedKind[] = []
  readonly #running = new Set<Promise<void>>()
  /** pauses before the next discoveries. ms */
  #pauses: number[] = []
  #wake: () => void = () => undefined
  #hasRead = false
  #logged: '' | 'failed' | 'forbidden' | 'tooMany' = ''

  constructor(components: KindsComponents, options: KindsOptions) {
    const { api, log, clock, random } = components
    this.#components = components
    this.#options = options
    this.#unfollowed = new UnfollowedKinds(components.sink)
    this.#follow = { namespaces: [], kinds: [], exclude: [], ...options.follow }
    this.#times = { ...watchTimes, ...retries, ...options.times }
    const trouble = new LimitedLog({ clock, log }, 'Cannot follow a kind as it should be')
    const onTrouble = (kind: string, error: unknown) => trouble.warn(`${kind}: ${errorText(error)}`)
    const lists = new Turns<undefined>({ maxRunning: listsAtOnce })
    this.#shared = {
      api,
      clock,
      random,
      dutyCycle: new DutyCycle(clock),
      liveness: new ApiLiveness({ client: api, clock }),
      watchLists: new WatchLists(clock),
      turn: (signal) => lists.take(undefined, signal),
      open: new Counter({ max: (options.maxWatches ?? defaultMaxWatches) - Registrations.watches }),
      refusals: new Refusals({ api, clock, random }),
      live: new LiveWatches(clock),
      onTrouble,
    }
    this.#registrations = new Registrations({ ...this.#shared, onChange: () => this.#registered() }, this.#times)
  }

  /** Resolves when the signal aborts. May be called once. */
  async run(signal: AbortSignal): Promise<void> {
    this.#hold(this.#registrations.run(signal))
    const { events, evidence } = this.#components
    this.#hold(this.#watchOf(warnings, { sink: evidence ? bothSinks(events, evidence) : events }).run(signal))
    for (const one of evidence ? normalEvidence : [])
      this.#hold(this.#watchOf(one, { sink: evidence as ObjectSink }).run(signal))
    const { firstRetryMs, maxRetryMs } = this.#times
    let failures = 0
    while (!signal.aborted) {
      const isDue = await this.#wait(signal)
      if (!isDue || signal.aborted || !this.#registrations.isKnown) continue
      const isDone = await this.#read(signal)
      failures = isDone ? 0 : failures + 1
      if (!isDone) this.#pauses = [Math.min(firstRetryMs * 2 ** (failures - 1), maxRetryMs)]
    }
    await Promise.all(this.#running)
  }

  #registered(): void {
    this.#pauses = this.#hasRead ? [...settleMs] : [0]
    this.#wake()
  }

  /** @returns false: the wait was cut short, and another one follows */
  async #wait(signal: AbortSignal): Promise<boolean> {
    const { clock, random } = this.#components
    const next = this.#pauses.shift()
    if (next !== undefined) {
      if (next > 0) await pause(next, clock, signal)
      return true
    }
    const waking = linkedController(signal)
    this.#wake = () => waking.abort()
    await pause(pollMs * (0.8 + 0.4 * random()), clock, waking.signal)
    waking.dispose()
    return !waking.signal.aborted
  }

  /** @returns false: discovery failed, and is to be repeated soon */
  async #read(signal: AbortSignal): Promise<boolean> {
    this.#hasRead = true
    const { api, clock } = this.#components
    const reason = () => new KasError({ code: 'DEADLINE_EXCEEDED' })
    const options = { ms: discoveryTimeoutMs, clock, signals: [signal], reason }
    try {
      const served = await withDeadline(options, (timely) => discover(api, timely))
      if (!signal.aborted) this.#apply(served, signal)
      return true
    } catch (error) {
      if (!signal.aborted) this.#warn('failed', { error }, 'Cannot ask the API server which kinds it serves')
      return false
    }
  }

  /** Follows the kinds that are served now. A group that is not fully known keeps its kinds. */
  #apply({ kinds, stale }: Served, signal: AbortSignal): void {
    const { maxKinds = defaultMaxKinds } = this.#options
    const isOwn = this.#registrations.ownGroups()
    const here = new Set(kinds.map(({ key }) => key))
    const known = [...this.#followed.values()].map(({ served }) => served)
    const all = [...kinds, ...this.#served.filter(({ key, group }) => stale.has(group) && !here.has(key))]
    this.#served = all
    this.#places = new Map(Array.from(new Set(all.map(({ group }) => group)), (group, place) => [group, place]))
    const { followed, tooMany } = chooseKinds(all, this.#follow, { isOwn, maxKinds })
    const wanted = new Map(followed.map((kind) => [kind.key, kind]))
    for (const kind of known) if (!isSame(kind, wanted.get(kind.key))) this.#drop(kind, signal)
    this.#nameUnfollowed(tooMany, all, maxKinds)
    for (const kind of followed) if (!this.#followed.has(kind.key)) this.#begin(kind, signal)
    if (this.#registrations.isForbidden) {
      const sentence =
        'agentk may not list APIServices: of groups that are not of Kubernetes those of CustomResourceDefinitions alone are followed'
      this.#warn('forbidden', { verbs: ['list', 'watch'] }, sentence)
    } else if (tooMany.length > 0)
      this.#warn('tooMany', { count: tooMany.length, maxKinds }, 'Too many kinds, some are not followed')
    else this.#logged = ''
  }

  #begin(kind: ServedKind, signal: AbortSignal): void {
    const { rules } = this.#options
    const isMetadata = isMetadataEnough(kind, (key) => rules?.wantsStatus(key) ?? false)
    const stopping = linkedController(signal)
    const stop = () => {
      stopping.abort()
      stopping.dispose()
    }
    this.#followed.set(kind.key, { served: kind, stop })
    const { sink } = this.#components
    const watch = this.#watchOf({ kind, isMetadata }, { sink, groups: this.#groups }, rules?.ready(kind.key))
    this.#hold(watch.run(stopping.signal))
  }

  /** Stops following a kind. Kinds of the same plural are listed again: their groups may serve the same objects. */
  #drop(kind: ServedKind, signal: AbortSignal): void {
    this.#followed.get(kind.key)?.stop()
    this.#followed.delete(kind.key)
    this.#components.sink.dropped(kind, undefined)
    for (const { served, stop } of [...this.#followed.values()]) {
      if (served.plural !== kind.plural) continue
      stop()
      this.#begin(served, signal)
    }
  }

  /** Names kinds that are not followed, for each reason at most `maxKinds`. */
  #nameUnfollowed(tooMany: readonly ServedKind[], kinds: readonly ServedKind[], maxKinds: number): void {
    const { awayGroups } = this.#registrations
    const isOwn = (group: string) => awayGroups.has(group)
    const { followed } = chooseKinds(kindsAway(kinds, awayGroups), this.#follow, { isOwn, maxKinds })
    const since = this.#components.clock.now()
    const why = `more than ${maxKinds} kinds`
    this.#unfollowed.name([
      ...tooMany.slice(0, maxKinds).map((kind) => ({ kind, is: 'refused', since, why }) as const),
      ...followed.map((kind) => ({ kind, is: 'aside', ...(awayGroups.get(kind.group) as Away) }) as const),
    ])
  }

  #watchOf(
    followed: FollowedKind,
    into: Pick<PartWatchComponents, 'sink' | 'groups'>,
    isReady?: Promise<void>,
  ): KindWatch {
    const { namespaces } = this.#follow
    const options = { ...followed, namespaces, times: this.#times, ...(isReady ? { isReady } : {}) }
    return new KindWatch({ ...this.#shared, ...into }, options)
  }

  #placeOf(group: string): number {
    return this.#places.get(group) ?? Number.POSITIVE_INFINITY
  }

  #hold(work: Promise<void>): void {
    const running = work.finally(() => this.#running.delete(running))
    this.#running.add(running)
  }

  /** Logs each trouble once, until it ends. */
  #warn(trouble: 'failed' | 'forbidden' | 'tooMany', fields: object, sentence: string): void {
    if (this.#logged === trouble) return
    this.#logged = trouble
    this.#components.log.warn(fields, sentence)
  }
}

function isSame(one: ServedKind, other: ServedKind | undefined): boolean {
  return (
    other !== undefined &&
    one.version === other.version &&
    one.plural === other.plural &&
    one.isNamespaced === other.isNamespaced &&
    one.hasStatus === other.hasStatus
  )
}
