import { isBuiltInGroup } from '../../../../kubernetes/built-in-groups.ts'
import { conditionAt } from '../../../../kubernetes/conditions.ts'
import { builtIn, type GroupVersionResource } from '../../../../kubernetes/kind.ts'
import { at, type KubernetesObject, textAt } from '../../../../kubernetes/object.ts'
import { collectionPath } from '../../../../kubernetes/path.ts'
import type { ApiClient } from '../../../cluster/api-client.ts'
import { KeptObjects } from '../../../cluster/kept-objects.ts'
import { ObjectWatch, type ObjectWatchComponents, type WatchTimes } from '../../../cluster/object-watch.ts'
import type { WatchSink } from '../../../cluster/watch-sink.ts'
import { asideMs, FailingTime, type LiveWatches } from './failing-time.ts'
import type { Refusals } from './refusals.ts'

export interface RegistrationsComponents extends Omit<ObjectWatchComponents, 'client' | 'sink' | 'untilAllowed'> {
  readonly api: Pick<ApiClient, 'json' | 'send'>
  readonly refusals: Pick<Refusals, 'wait'>
  /** called when kinds may have come or gone, or are known for the first time */
  readonly onChange: () => void
  readonly live: LiveWatches
  /** writes to the log */
  readonly onTrouble: (kind: string, error: unknown) => void
}

interface CustomKind {
  readonly key: string
  readonly group: string
  /** resourceVersion: it differs after each change, such as when the kind begins to be served */
  readonly version: string
}

interface ApiService {
  readonly key: string
  readonly group: string
  /** another server answers for this API */
  readonly isAggregated: boolean
  /** undefined: that server answers */
  readonly away: Away | undefined
}

/** State of a server that is not available. */
export interface Away {
  /** ms since 1970 */
  readonly since: number
  /** reason for people; names no object */
  readonly why: string
}

/** bound of the reason that an APIService gives, in characters */
const maxReason = 128

const common = { pageSize: 500, leavesOut: true, resumes: true }

/** Watches CustomResourceDefinitions and APIServices: which server answers for which group, and when this changes. */
export class Registrations {
  static readonly watches = 2
  readonly #components: RegistrationsComponents
  readonly #times: WatchTimes
  readonly #customKinds: KeptObjects<CustomKind>
  readonly #apiServices: KeptObjects<ApiService>
  /** `forbidden`: agentk may not list APIServices, or lists of them fail for long; `absent`: there are none */
  #without: Without
  readonly #failing: FailingTime
  /** cancels the wait for a group that is about to have been away for long */
  #cancelAway: () => void = () => undefined

  constructor(components: RegistrationsComponents, times: WatchTimes) {
    const { onChange, onTrouble, clock, live } = components
    this.#components = components
    this.#times = times
    this.#failing = new FailingTime({ clock, live, onLong: () => this.#apiServicesAre('forbidden') })
    this.#customKinds = new KeptObjects({ read: readCustomKind, onChange, onEnded: () => undefined })
    this.#apiServices = new KeptObjects({
      read: (object) => readApiService(object, clock.now()),
      onChange: () => {
        this.#failing.end()
        this.#awaitAway()
        this.#apiServicesAre(undefined)
      },
      onEnded: ({ status, error }) => {
        if (status === 403 || status === 404) this.#apiServicesAre(status === 403 ? 'forbidden' : 'absent')
        else if (status !== 200 && status !== 410) {
          if (!this.isKnown) this.#failing.failed(undefined)
          onTrouble('apiregistration.k8s.io/APIService', error ?? new Error(`the API server answered ${status}`))
        }
      },
    })
  }

  /** True once it is known which server answers for each group, or that this cannot be known. */
  get isKnown(): boolean {
    return this.#without !== undefined || this.#apiServices.isSynced
  }

  /** agentk may not list APIServices: besides Kubernetes' own groups, only those of custom kinds are known. */
  get isForbidden(): boolean {
    return this.#without === 'forbidden'
  }

  /**
   * @returns true for a group that the API server itself answers for: another server may answer each caller differently
   */
  ownGroups(): (group: string) => boolean {
    if (this.#without === 'absent') return () => true
    const services = [...this.#apiServices.objects.values()]
    const others = groupsOf(services.filter(({ isAggregated }) => isAggregated))
    const own = groupsOf(this.isForbidden ? this.#customKinds.objects.values() : services)
    // the group of APIServices has no APIService
    return (group) => !others.has(group) && (own.has(group) || isBuiltInGroup(group))
  }

  /** Groups that no server has answered for in `asideMs`. */
  get awayGroups(): ReadonlyMap<string, Away> {
    const now = this.#components.clock.now()
    return new Map([...this.#away()].filter(([, { since }]) => now - since >= asideMs))
  }

  /** Groups without a version that is served. */
  #away(): ReadonlyMap<string, Away> {
    const away = new Map<string, Away>()
    for (const [group, services] of Map.groupBy(this.#apiServices.objects.values(), (one) => one.group)) {
      const [first, ...others] = services.flatMap((one) => one.away ?? []).sort((a, b) => b.since - a.since)
      if (first && others.length === services.length - 1) away.set(group, first)
    }
    return away
  }

  #awaitAway(): void {
    const { clock, onChange } = this.#components
    this.#cancelAway()
    const waits = [...this.#away().values()].map(({ since }) => since + asideMs - clock.now()).filter((ms) => ms > 0)
    if (waits.length === 0) return
    this.#cancelAway = clock.after(Math.min(...waits), () => {
      this.#awaitAway()
      onChange()
    })
  }

  /** Resolves when the signal aborts. */
  async run(signal: AbortSignal): Promise<void> {
    await Promise.all([
      this.#watchOf(builtIn.apiServices, this.#apiServices, false).run(signal),
      this.#watchOf(builtIn.customResourceDefinitions, this.#customKinds, true).run(signal),
    ])
    this.#failing.end()
    this.#cancelAway()
  }

  #watchOf(kind: GroupVersionResource, sink: WatchSink, isMetadata: boolean): ObjectWatch {
    const { api: client, refusals, onChange: _, onTrouble: __, live: ___, ...components } = this.#components
    const path = collectionPath(kind)
    const untilAllowed = (mostMs: number, signal: AbortSignal) =>
      refusals.wait({ kind, namespace: undefined }, mostMs, signal)
    const options = { ...common, times: this.#times, path, isMetadata }
    return new ObjectWatch({ ...components, client, sink, untilAllowed }, options)
  }

  #apiServicesAre(without: Without): void {
    if (without !== undefined && without === this.#without) return
    this.#without = without
    this.#components.onChange()
  }
}

type Without = 'forbidden' | 'absent' | undefined

function groupsOf(all: Iterable<{ readonly group: string }>): ReadonlySet<string> {
  return new Set(Array.from(all, ({ group }) => group))
}

/** Reads a CustomResourceDefinition: its name is `<plural>.<group>`. */
function readCustomKind(object: unknown): CustomKind | undefined {
  const name = textAt(object, 'metadata.name')
  const dot = name.indexOf('.')
  if (dot < 0) return undefined
  return { key: name, group: name.slice(dot + 1), version: textAt(object, 'metadata.resourceVersion') }
}

/** @param now - ms since 1970 */
function readApiService(object: unknown, now: number): ApiService | undefined {
  const name = textAt(object, 'metadata.name')
  if (!name) return undefined
  const service = at(object, 'spec.service')
  const isAggregated = service !== undefined && service !== null
  const available = conditionAt(object as KubernetesObject, 'Available', now)
  const why = `its API is not available: ${available?.reason.slice(0, maxReason)}`
  const away = isAggregated && available?.status === 'False' ? { since: available.since ?? now, why } : undefined
  return { key: name, group: textAt(object, 'spec.group'), isAggregated, away }
}
