import { Kube, type KubeOptions } from '../soak/kube.ts'
import { PacedCalls } from '../soak/rolling/paced-calls.ts'
import { ResumedWatch } from '../soak/rolling/resumed-watch.ts'
import { TypedExec } from '../soak/rolling/typed-exec.ts'
import { eventually } from '../support/eventually.ts'

export interface GoodLoadOptions {
  /** the ways in, each with as much */
  readonly accesses: readonly KubeOptions[]
  /** calls begun each second */
  readonly callsPerSecond: number
  readonly watches: number
  readonly execs: number
  /** what a caller waits for an answer before he calls it a failure. ms */
  readonly patienceMs: number
}

const namespace = 'default'
const configMaps = `/api/v1/namespaces/${namespace}/configmaps`
const pod = { namespace: 'demo', pod: 'echo' }
/** in all watches */
const lastEventMs = 10_000

/** What good tenants do all the time: watches and execs that stay open, and calls in periods, which are told apart. */
export class GoodLoad {
  readonly #options: GoodLoadOptions
  readonly #kubes: readonly Kube[]
  readonly #execs: readonly TypedExec[]
  readonly #label = `hostile-${Date.now()}`
  #watches: readonly ResumedWatch[] = []
  #periods = 0

  constructor(options: GoodLoadOptions) {
    const { accesses, execs } = options
    this.#options = options
    this.#kubes = accesses.map((access) => new Kube(access))
    this.#execs = accesses.flatMap((access) => Array.from({ length: execs }, () => new TypedExec(access, pod)))
  }

  /** Resolves once all watches and execs are open. @throws the signal's reason */
  async start(signal: AbortSignal): Promise<void> {
    const { accesses, watches } = this.#options
    const { body } = await (this.#kubes[0] as Kube).ask(`${configMaps}?limit=1`)
    const { metadata } = JSON.parse(body) as { metadata: { resourceVersion: string } }
    const from = { path: `${configMaps}?labelSelector=hostile%3D${this.#label}`, version: metadata.resourceVersion }
    this.#watches = accesses.flatMap((access) => Array.from({ length: watches }, () => new ResumedWatch(access, from)))
    await Promise.all([...this.#watches, ...this.#execs].map((each) => each.start(signal)))
  }

  /** Begins calls; they are told of once the period is over. */
  period(): Period {
    const { accesses, callsPerSecond, patienceMs } = this.#options
    const number = ++this.#periods
    const calls = accesses.map((access, i) => {
      const labels = { period: `${this.#label}-${number}-${i}` }
      return new PacedCalls({ access, perSecond: callsPerSecond, namespace, labels, patienceMs })
    })
    return new Period(calls)
  }

  /** Watches and execs that have ended so far, or did not begin again, in words. */
  get cut(): string[] {
    const ends = (what: string, all: readonly { ends: readonly unknown[]; failures: readonly string[] }[]) => [
      ...all.flatMap((each) => each.ends.map(() => `${what} was cut`)),
      ...all.flatMap((each) => each.failures),
    ]
    return [...ends('a watch', this.#watches), ...ends('an exec', this.#execs)]
  }

  /** All watches tell of an object that is made now. @throws when one does not */
  async watchesLive(): Promise<void> {
    const name = `${this.#label}-${++this.#periods}`
    await (this.#kubes[0] as Kube).create(configMaps, { metadata: { name, labels: { hostile: this.#label } } })
    await eventually(
      () => {
        const silent = this.#watches.filter(({ names }) => !names.includes(name)).length
        if (silent > 0) throw new Error(`${silent} watches did not tell of what was made`)
      },
      { timeoutMs: lastEventMs },
    )
  }

  async stop(): Promise<void> {
    await Promise.all([...this.#watches, ...this.#execs].map((each) => each.stop()))
    for (const kube of this.#kubes) kube.close()
  }
}

/** Calls from `period` to `stop`. */
export class Period {
  readonly #calls: readonly PacedCalls[]

  constructor(calls: readonly PacedCalls[]) {
    this.#calls = calls
    for (const each of calls) each.start()
  }

  async stop(): Promise<void> {
    await Promise.all(this.#calls.map((each) => each.stop()))
  }

  get failures(): string[] {
    return this.#calls.flatMap(({ failures }) => failures)
  }

  /** of each call, sorted. ms */
  get tookMs(): number[] {
    return this.#calls.flatMap(({ tookMs }) => Object.values(tookMs).flat()).sort((one, other) => one - other)
  }
}
