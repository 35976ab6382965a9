import type { Endpoint } from '../../src/kas/command/endpoint.ts'
import { Kube, type KubeOptions } from '../soak/kube.ts'
import { PacedCalls } from '../soak/rolling/paced-calls.ts'
import { ResumedWatch } from '../soak/rolling/resumed-watch.ts'
import { TypedExec } from '../soak/rolling/typed-exec.ts'
import { eventually } from '../support/eventually.ts'
import { askHealth } from './good-health.ts'
import type { GoodSource } from './good-source.ts'
import { GoodViews, type GoodViewsComponents } from './good-views.ts'
import { Repeated, type Series } from './repeated.ts'

/** Views and GitOps of good tenants. */
export interface GoodPlace extends GoodViewsComponents {
  /** one for each replica that they use */
  readonly endpoints: readonly Endpoint[]
  /** files for commands, one for each replica that they use */
  readonly kubeconfigs: readonly string[]
  /** arguments of `kas health`, in turn */
  readonly healthArgs: readonly (readonly string[])[]
  /** its allowed exit codes */
  readonly healthCodes: readonly number[]
  readonly source: GoodSource
}

export interface GoodLoadOptions {
  /** replicas that they use, each with the same load */
  readonly accesses: readonly KubeOptions[]
  /** credentials that take turns in calls, watches and execs */
  readonly users: readonly string[]
  /** calls begun each second */
  readonly callsPerSecond: number
  readonly watches: number
  /** number of execs; needs pods that can run commands */
  readonly execs: number
  /** limit of an answer, after which a call has failed. ms */
  readonly patienceMs: number
  /** absent: no views and no pushes */
  readonly place?: GoodPlace | undefined
  /** interval of changed rows, of `kas health` and of pushes. ms */
  readonly paces?: { readonly rowMs: number; readonly healthMs: number; readonly pushMs: number }
}

const namespace = 'default'
const configMaps = `/api/v1/namespaces/${namespace}/configmaps`
const pod = { namespace: 'demo', pod: 'echo' }
/** limit of an event in all watches, and in all views */
const lastEventMs = 10_000
const defaultPaces = { rowMs: 1000, healthMs: 1000, pushMs: 10_000 }
/** limit until all views are live at first. ms */
const viewsMs = 60_000

/** The load of good tenants: watches, execs and views that stay open, and repeated calls in periods. */
export class GoodLoad {
  readonly #options: GoodLoadOptions
  readonly #kubes: readonly Kube[]
  readonly #execs: readonly TypedExec[]
  readonly #views: GoodViews | undefined
  readonly #label = `hostile-${Date.now()}`
  #watches: readonly ResumedWatch[] = []
  #periods = 0
  #rows = 0
  #pushes = 0

  constructor(options: GoodLoadOptions) {
    const { accesses, users, execs, place } = options
    this.#options = options
    this.#kubes = accesses.map((access) => new Kube(access))
    this.#execs = byUsers(accesses, execs, users.toReversed()).map((access) => new TypedExec(access, pod))
    this.#views = place && new GoodViews(place)
  }

  /** Resolves once all watches, execs and views are open, and the first push is applied. @throws the signal's reason */
  async start(signal: AbortSignal): Promise<void> {
    const { accesses, users, watches, place } = this.#options
    const { body } = await (this.#kubes[0] as Kube).ask(`${configMaps}?limit=1`)
    const { metadata } = JSON.parse(body) as { metadata: { resourceVersion: string } }
    const from = { path: `${configMaps}?labelSelector=hostile%3D${this.#label}`, version: metadata.resourceVersion }
    this.#watches = byUsers(accesses, watches, users).map((access) => new ResumedWatch(access, from))
    await Promise.all([...this.#watches, ...this.#execs].map((each) => each.start(signal)))
    await this.#views?.start(viewsMs, signal)
    await place?.source.push(++this.#pushes, signal)
  }

  /** Begins the repeated calls; their results are complete once the period is over. */
  period(): Period {
    const { accesses, users, callsPerSecond, patienceMs } = this.#options
    const number = ++this.#periods
    const calls = accesses.map((access, i) => {
      const labels = { period: `${this.#label}-${number}-${i}` }
      return new PacedCalls({ access, users, perSecond: callsPerSecond, namespace, labels, patienceMs })
    })
    return new Period(calls, this.#repeated())
  }

  /** Watches, execs and views that have ended so far, or did not begin again, in words. */
  get cut(): string[] {
    const ends = (what: string, all: readonly { ends: readonly unknown[]; failures: readonly string[] }[]) => [
      ...all.flatMap((each) => each.ends.map(() => `${what} was cut`)),
      ...all.flatMap((each) => each.failures),
    ]
    return [...ends('a watch', this.#watches), ...ends('an exec', this.#execs), ...(this.#views?.ended ?? [])]
  }

  /** Checks that all watches and views show a new object. @throws Error if one does not */
  async live(): Promise<void> {
    const name = `${this.#label}-${++this.#periods}`
    await (this.#kubes[0] as Kube).create(configMaps, { metadata: { name, labels: { hostile: this.#label } } })
    await eventually(
      () => {
        const silent = this.#watches.filter(({ names }) => !names.includes(name)).length
        if (silent > 0) throw new Error(`${silent} watches did not tell of what was made`)
      },
      { timeoutMs: lastEventMs },
    )
    await this.#views?.change(this.#row(), lastEventMs, AbortSignal.timeout(lastEventMs))
  }

  async stop(): Promise<void> {
    await Promise.all([...this.#watches, ...this.#execs].map((each) => each.stop()))
    await this.#views?.stop()
    for (const kube of this.#kubes) kube.close()
  }

  readonly #row = () => `${this.#label}-row-${++this.#rows}`

  #repeated(): Repeated[] {
    const { place, patienceMs, paces = defaultPaces } = this.#options
    const views = this.#views
    if (!place || !views) return []
    const { kubeconfigs, healthArgs, healthCodes: codes, source } = place
    const turn = <T>(all: readonly T[], number: number) => all[number % all.length] as T
    return [
      new Repeated({
        name: 'row',
        everyMs: paces.rowMs,
        patienceMs,
        once: (_, signal) => views.change(this.#row(), patienceMs, signal),
      }),
      new Repeated({
        name: 'health',
        everyMs: paces.healthMs,
        patienceMs,
        once: async (number, signal) => {
          const args = turn(healthArgs, Math.floor(number / kubeconfigs.length))
          return [await askHealth({ kubeconfig: turn(kubeconfigs, number), args, codes }, signal)]
        },
      }),
      new Repeated({
        name: 'push',
        everyMs: paces.pushMs,
        patienceMs,
        once: async (_, signal) => [await source.push(++this.#pushes, signal)],
      }),
    ]
  }
}

/** Returns `ofEach` options for each replica, with users in turn. */
function byUsers(accesses: readonly KubeOptions[], ofEach: number, users: readonly string[]): KubeOptions[] {
  const all = accesses.flatMap((access) => Array.from({ length: ofEach }, () => access))
  return all.map((access, i) => ({ ...access, credential: users[i % users.length] as string }))
}

/** The repeated calls, from `period` to `stop`. */
export class Period {
  readonly #calls: readonly PacedCalls[]
  readonly #others: readonly Repeated[]

  constructor(calls: readonly PacedCalls[], others: readonly Repeated[]) {
    this.#calls = calls
    this.#others = others
    for (const each of [...calls, ...others]) each.start()
  }

  async stop(): Promise<void> {
    await Promise.all([...this.#calls, ...this.#others].map((each) => each.stop()))
  }

  get failures(): string[] {
    return this.series.flatMap(({ failures }) => failures)
  }

  /** results of each kind of call */
  get series(): readonly Series[] {
    const took = this.#calls.flatMap(({ tookMs }) => Object.values(tookMs).flat())
    const calls = {
      name: 'call',
      tookMs: took.sort((one, other) => one - other),
      failures: this.#calls.flatMap(({ failures }) => failures),
    }
    return [calls, ...this.#others.map(({ series }) => series)]
  }
}
