import { delay } from '../../src/lib/signals.ts'
import type { LocalReplica } from '../start/local-replica.ts'
import type { LocalStack } from '../start/local-stack.ts'
import { holdersOf, type ReplicaView, tableOf, viewReplicas } from '../start/replica-table.ts'
import { Caller } from './caller.ts'

/** One scene of the demo. */
export interface Scene {
  /** a word by which a user selects it */
  readonly name: string
  readonly title: string
  play(stage: Stage): Promise<void>
}

export interface StageOptions {
  /** port of the balancer */
  readonly kubernetesPort: number
  /** prints a line on the screen */
  readonly print: (line: string) => void
  /** aborts when the demo is interrupted */
  readonly signal: AbortSignal
}

/** Interval of reads from the replicas, since another process cannot be subscribed to. ms */
const askAgainMs = 50
/** limit for a replica to start, or to learn of a change. ms */
const settleMs = 30_000

/** Stage of the scenes: the stack, its callers, and the results. */
export class Stage {
  readonly stack: LocalStack
  readonly signal: AbortSignal
  /** failed checks, a line each */
  readonly failures: string[] = []
  readonly balancer: Caller
  readonly #options: StageOptions
  readonly #callers: ReadonlyMap<string, Caller>
  readonly #began = performance.now()

  constructor(stack: LocalStack, options: StageOptions) {
    this.stack = stack
    this.signal = options.signal
    this.#options = options
    const { authority, userCredential: credential } = stack.access
    const callerOf = (name: string, port: number) => new Caller({ name, port, authority, credential })
    this.balancer = callerOf('the balancer', options.kubernetesPort)
    this.#callers = new Map(stack.replicas.map(({ name, ports }) => [name, callerOf(name, ports.kubernetes)]))
  }

  /** Returns the caller of this replica. */
  caller(replica: LocalReplica): Caller {
    const caller = this.#callers.get(replica.name)
    if (!caller) throw new Error(`${replica.name} has no way in`)
    return caller
  }

  /** Running replicas. */
  get running(): LocalReplica[] {
    return this.stack.replicas.filter(({ pid }) => pid !== undefined)
  }

  say(text: string): void {
    const seconds = ((performance.now() - this.#began) / 1000).toFixed(1)
    this.#options.print(`${seconds.padStart(6)} s  ${text}`)
  }

  /** Records a failure if the promise does not hold. */
  check(holds: boolean, promise: string): void {
    if (holds) return
    this.failures.push(promise)
    this.say(`NOT SO: ${promise}`)
  }

  async table(): Promise<void> {
    const lines = tableOf(await viewReplicas(this.stack.replicas.filter(({ pid }) => pid !== undefined)))
    for (const line of lines) this.#options.print(`          ${line}`)
  }

  /** Returns the agent's home, or else another replica that holds it, and the other running replicas. */
  async holder(): Promise<{ holder: LocalReplica; others: LocalReplica[] }> {
    const views = await this.until('one replica holds the agent', (views) => holdersOf(views).length > 0)
    const [name] = holdersOf(views)
    const holder = this.running.find((replica) => replica.name === name)
    if (!holder) throw new Error(`${name} has ended`)
    return { holder, others: this.running.filter((replica) => replica !== holder) }
  }

  /** Resolves once all running replicas are ready, know one another, and carry calls. */
  async settle(): Promise<void> {
    const { running } = this
    const all = (views: ReplicaView[]) => views.every(({ ready, members }) => ready && members === running.length)
    await this.until(`${running.length} replicas know one another`, all)
    const limit = AbortSignal.any([this.signal, AbortSignal.timeout(settleMs)])
    await Promise.all(running.map(({ ports }) => this.stack.answers(ports.kubernetes, limit)))
  }

  /** Reads the running replicas' views until `check` accepts them. @throws Error when it takes too long */
  async until(what: string, check: (views: ReplicaView[]) => boolean): Promise<ReplicaView[]> {
    const end = performance.now() + settleMs
    for (;;) {
      const views = await viewReplicas(this.running)
      if (check(views)) return views
      if (performance.now() > end) throw new Error(`not in ${settleMs / 1000} s: ${what}`)
      await delay(askAgainMs, this.signal)
    }
  }

  /** Starts a stopped replica, and waits until all agree again. */
  async startAgain(replica: LocalReplica): Promise<void> {
    const at = performance.now()
    const since = () => Math.round(performance.now() - at)
    await this.stack.startReplica(replica)
    await replica.ready(AbortSignal.any([this.signal, AbortSignal.timeout(settleMs)]))
    const readyMs = since()
    await this.settle()
    this.say(
      `${replica.name} is back: ready after ${readyMs} ms, ${this.running.length} know one another after ${since()} ms`,
    )
  }

  async close(): Promise<void> {
    await Promise.all([this.balancer, ...this.#callers.values()].map((caller) => caller.close()))
  }
}
