import { builtIn, type GroupVersionResource } from '../../../../kubernetes/kind.ts'
import { at, textAt } from '../../../../kubernetes/object.ts'
import { collectionPath } from '../../../../kubernetes/path.ts'
import type { ApiClient } from '../../../cluster/api-client.ts'
import { KeptObjects } from '../../../cluster/kept-objects.ts'
import { ObjectWatch, type ObjectWatchComponents, type WatchTimes } from '../../../cluster/object-watch.ts'
import type { WatchSink } from '../../../cluster/watch-sink.ts'
import { FailingTime, type LiveWatches } from './failing-time.ts'
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
}

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

  constructor(components: RegistrationsComponents, times: WatchTimes) {
    const { onChange, onTrouble, clock, live } = components
    this.#components = components
    this.#times = times
    this.#failing = new FailingTime({ clock, live, onLong: () => this.#apiServicesAre('forbidden') })
    this.#customKinds = new KeptObjects({ read: readCustomKind, onChange, onEnded: () => undefined })
    this.#apiServices = new KeptObjects({
      read: readApiService,
      onChange: () => {
        this.#failing.end()
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

  /** Resolves when the signal aborts. */
  async run(signal: AbortSignal): Promise<void> {
    await Promise.all([
      this.#watchOf(builtIn.apiServices, this.#apiServices, false).run(signal),
      this.#watchOf(builtIn.customResourceDefinitions, this.#customKinds, true).run(signal),
    ])
    this.#failing.end()
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

function readApiService(object: unknown): ApiService | undefined {
  const name = textAt(object, 'metadata.name')
  const service = at(object, 'spec.service')
  return name
    ? { key: name, group: textAt(object, 'spec.group'), isAggregated: service !== undefined && service !== null }
    : undefined
}
