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
import { isBuiltIn } from './served-kinds.ts'

export interface RegistrationsComponents extends Omit<ObjectWatchComponents, 'client' | 'sink' | 'untilAllowed'> {
  readonly api: Pick<ApiClient, 'json' | 'send'>
  readonly refusals: Pick<Refusals, 'wait'>
  /** kinds may have come or gone, or are known for the first time */
  readonly onChange: () => void
  readonly live: LiveWatches
  /** for the log */
  readonly onTrouble: (kind: string, error: unknown) => void
}

interface CustomKind {
  readonly key: string
  readonly group: string
  /** another with each change, such as that it is served now */
  readonly version: string
}

interface ApiService {
  readonly key: string
  readonly group: string
  /** another server answers for it */
  readonly isAggregated: boolean
  /** that server does not answer now */
  readonly away: Away | undefined
}

/** A server that is not available. */
export interface Away {
  /** ms since 1970 */
  readonly since: number
  /** for people; names nothing */
  readonly why: string
}

/** characters of the reason that an APIService gives */
const maxReason = 128

const common = { pageSize: 500, leavesOut: true, resumes: true }

/** Who serves what, and when that changes: CustomResourceDefinitions and APIServices. */
export class Registrations {
  static readonly watches = 2
  readonly #components: RegistrationsComponents
  readonly #times: WatchTimes
  readonly #customKinds: KeptObjects<CustomKind>
  readonly #apiServices: KeptObjects<ApiService>
  /** agentk may not list APIServices, the API server fails to for long, or there are none */
  #without: Without
  readonly #failing: FailingTime
  /** ends the wait for a group that is about to have been away for long */
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

  /** It is known who serves which group, or that this cannot be known. */
  get isKnown(): boolean {
    return this.#without !== undefined || this.#apiServices.isSynced
  }

  /** agentk may not list APIServices: of other groups than Kubernetes' own those of custom kinds alone are known. */
  get isForbidden(): boolean {
    return this.#without === 'forbidden'
  }

  /** @returns whether the API server itself answers for a group: another server may answer each caller differently */
  ownGroups(): (group: string) => boolean {
    if (this.#without === 'absent') return () => true
    const services = [...this.#apiServices.objects.values()]
    const others = groupsOf(services.filter(({ isAggregated }) => isAggregated))
    const own = groupsOf(this.isForbidden ? this.#customKinds.objects.values() : services)
    // that of APIServices itself has none
    return (group) => !others.has(group) && (own.has(group) || isBuiltIn(group))
  }

  /** Groups that no server has answered for in `asideMs`. */
  get awayGroups(): ReadonlyMap<string, Away> {
    const now = this.#components.clock.now()
    return new Map([...this.#away()].filter(([, { since }]) => now - since >= asideMs))
  }

  /** Groups of which no version is served. */
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

/** Its name is `<plural>.<group>`. */
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
