import { delay } from '../../../src/lib/signals.ts'
import { Kube, type KubeOptions } from '../kube.ts'
import { median } from '../scene.ts'
import { type End, type Leave, unexplained } from './ends.ts'
import { type FailedCall, PacedCalls } from './paced-calls.ts'
import { ResumedWatch } from './resumed-watch.ts'
import { TypedExec } from './typed-exec.ts'

export interface RollingLoadOptions {
  readonly access: KubeOptions
  /** calls begun each second */
  readonly calls: number
  readonly watches: number
  readonly execs: number
  /** namespace of ConfigMaps */
  readonly namespace: string
  readonly pod: { readonly namespace: string; readonly pod: string }
  /** access that creates the objects for the watches; default: `access` */
  readonly ticksBy?: KubeOptions
}

const tickEveryMs = 1000
/** limit for the last object to reach every watch. ms */
const lastTickMs = 10_000
const lookAgainMs = 50
/** streams opened at once, which a machine can take at the start */
const openAtOnce = 10
/** shown lines among many similar ones */
const shownLines = 5

/**
 * Load of callers while replicas are restarted. Calls come at a steady pace, watches all see one new object a second,
 * and execs get one line of input each second.
 */
export class RollingLoad {
  readonly #options: RollingLoadOptions
  readonly #kube: Kube
  readonly #ticksBy: Kube
  readonly #calls: PacedCalls
  readonly #execs: readonly TypedExec[]
  #watches: readonly ResumedWatch[] = []
  /** names of objects that the watches must see */
  readonly #ticks: string[] = []
  readonly #failures: string[] = []
  #ticking: Promise<void> | undefined
  #stopped = false

  constructor(options: RollingLoadOptions) {
    const { access, calls: perSecond, namespace, execs, pod } = options
    this.#options = options
    this.#kube = new Kube(access)
    this.#ticksBy = new Kube(options.ticksBy ?? access)
    this.#calls = new PacedCalls({ access, perSecond, namespace, labels: { rolling: 'call' } })
    this.#execs = Array.from({ length: execs }, () => new TypedExec(access, pod))
  }

  /** Resolves once all watches and execs are open, and calls have begun. @throws the signal's reason */
  async start(signal: AbortSignal): Promise<void> {
    const { access, watches } = this.#options
    const from = { path: `${this.#path}?labelSelector=rolling%3Dtick`, version: await this.#version() }
    this.#watches = Array.from({ length: watches }, () => new ResumedWatch(access, from))
    const all = [...this.#watches, ...this.#execs]
    for (let i = 0; i < all.length; i += openAtOnce) {
      await Promise.all(all.slice(i, i + openAtOnce).map((each) => each.start(signal)))
    }
    this.#ticking = this.#tick()
    this.#calls.start()
  }

  /** Waits for calls, and for the last object in all watches; then ends all. */
  async stop(): Promise<void> {
    this.#stopped = true
    await Promise.all([this.#ticking, this.#calls.stop()])
    const end = performance.now() + lastTickMs
    const sawAll = () => this.#watches.every(({ names }) => names.length >= this.#ticks.length)
    while (!sawAll() && performance.now() < end) await delay(lookAgainMs)
    await Promise.all([...this.#watches, ...this.#execs].map((each) => each.stop()))
    this.#kube.close()
    this.#ticksBy.close()
  }

  /** ends of all watches */
  get watchEnds(): End[] {
    return this.#watches.flatMap(({ ends }) => ends)
  }

  /** ends of all execs */
  get execEnds(): End[] {
    return this.#execs.flatMap(({ ends }) => ends)
  }

  get failedCalls(): readonly FailedCall[] {
    return this.#calls.failed
  }

  /** Failures of the watches, a line each: refused requests, objects that were not seen. */
  get watchFailures(): string[] {
    return [...this.#failures, ...this.#watches.flatMap(({ failures }) => failures), ...this.#unseen]
  }

  /** Number of execs without any output since `at`, as `performance.now()`. */
  silentSince(at: number): number {
    return this.#execs.filter(({ echoedAt }) => echoedAt < at).length
  }

  figures(leaves: readonly Leave[]): string[] {
    return [
      ...this.callFigures(),
      `${this.#watches.length} watches: ${ended(this.#watches, leaves)}; each saw ${this.#ticks.length} objects`,
      `${this.#execs.length} execs: ${ended(this.#execs, leaves)}; ${sum(this.#execs.map(({ echoes }) => echoes))} lines came back`,
    ]
  }

  callFigures(): string[] {
    const { tookMs, failures, slowest, leftOut } = this.#calls
    const all = Object.values(tookMs).flat()
    const kinds = Object.entries(tookMs).map(([kind, times]) => `${times.length} ${kind}`)
    return [
      ...(leftOut > 0 ? [`this machine did not keep the pace: ${leftOut} calls were left out`] : []),
      `${all.length} calls (${kinds.join(', ')}), ${this.#calls.perSecond.toFixed(0)} a second: ${failures.length} failed`,
      `${timesOf(all)}; the slowest: ${slowest}`,
    ]
  }

  /** Failures of all kinds, a line each. */
  failures(leaves: readonly Leave[]): string[] {
    const early = (what: string, ends: readonly End[], since: 'listenEndsAt' | 'graceEndsAt') =>
      unexplained(ends, leaves, since).map(({ at }) => `${what} ended ${describe(at, leaves)}`)
    return [
      ...shown(this.#calls.failures),
      ...shown(this.#failures),
      ...shown(this.#watches.flatMap(({ failures }) => failures)),
      ...shown(this.#execs.flatMap(({ failures }) => failures)),
      ...shown(this.#watches.flatMap(({ ends }) => early('a watch', ends, 'listenEndsAt'))),
      ...shown(this.#execs.flatMap(({ ends }) => early('an exec', ends, 'graceEndsAt'))),
      ...shown(this.#unseen),
    ]
  }

  get #unseen(): string[] {
    const wrong = this.#watches.filter(({ names }) => names.join() !== this.#ticks.join())
    return wrong.map(({ names }) => `a watch saw ${names.length} objects in the place of ${this.#ticks.length}`)
  }

  get #path(): string {
    return `/api/v1/namespaces/${this.#options.namespace}/configmaps`
  }

  async #version(): Promise<string> {
    const { body } = await this.#kube.ask(`${this.#path}?limit=1`)
    return (JSON.parse(body) as { metadata: { resourceVersion: string } }).metadata.resourceVersion
  }

  async #tick(): Promise<void> {
    while (!this.#stopped) {
      const name = `tick-${this.#ticks.length}`
      const metadata = { name, labels: { rolling: 'tick' } }
      try {
        await this.#ticksBy.create(this.#path, { metadata })
        this.#ticks.push(name)
      } catch (error) {
        this.#failures.push(`${name} was not made: ${(error as Error).message}`)
      }
      await delay(tickEveryMs)
    }
  }
}

function describe(at: number, leaves: readonly Leave[]): string {
  const before = leaves.map(({ replica, graceEndsAt, exitedAt }) => {
    if (at > exitedAt) return `${Math.round(at - exitedAt)} ms after ${replica} had ended`
    return `${Math.round(graceEndsAt - at)} ms before the grace of ${replica} was over`
  })
  return before.join(', ') || 'though no replica left'
}

function ended(all: readonly { ends: readonly End[] }[], leaves: readonly Leave[]): string {
  const ends = all.flatMap((each) => each.ends)
  if (ends.length === 0) return 'none ended'
  const inOrder = ends.filter((end) => end.inOrder).length
  const since = ends.map(({ at }) => Math.min(...leaves.map(({ graceEndsAt }) => Math.abs(at - graceEndsAt))))
  const [least, most] = [Math.min(...since), Math.max(...since)].map(Math.round)
  return `ended ${ends.length} times (${inOrder} in order), ${least} to ${most} ms after a grace, and went on elsewhere`
}

function timesOf(ms: readonly number[]): string {
  const sorted = [...ms].sort((a, b) => a - b)
  const p99 = sorted[Math.floor(sorted.length * 0.99)] ?? 0
  return `median ${median(sorted).toFixed(0)} ms, p99 ${p99.toFixed(0)} ms, max ${(sorted.at(-1) ?? 0).toFixed(0)} ms`
}

function shown(lines: readonly string[]): string[] {
  if (lines.length <= shownLines) return [...lines]
  return [...lines.slice(0, shownLines), `${lines.length - shownLines} more like these`]
}

function sum(values: readonly number[]): number {
  return values.reduce((total, value) => total + value, 0)
}
