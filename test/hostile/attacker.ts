import type { ChildProcess } from 'node:child_process'
import { once } from 'node:events'
import { abortable } from '../../src/lib/signals.ts'
import { forkProgram } from './fork-program.ts'
import type { Stage } from './stage.ts'

interface Played {
  readonly name: string
  readonly size: 'cheap' | 'full'
  readonly stage: Stage
  readonly timeoutMs: number
}

export type AttackerOrder = ({ readonly kind: 'prepare' | 'play' } & Played) | { readonly kind: 'end' | 'clean' }

export interface AttackerAnswer {
  readonly refusal?: string
  /** it was cut short */
  readonly failure?: string
  /** all that it has used so far */
  readonly cpuMs?: number
}

/** what it may take longer than it was told. ms */
const marginMs = 10_000
/** what was made in a cluster has to go. ms */
const cleanMs = 60_000

/** The evil tenant, as a process of its own: what it costs is not the load's. */
export class Attacker {
  readonly #child: ChildProcess
  readonly #exited: Promise<unknown>

  private constructor(child: ChildProcess) {
    this.#child = child
    this.#exited = once(child, 'exit')
  }

  static async start(): Promise<Attacker> {
    const child = forkProgram('attacker-program.ts')
    await once(child, 'spawn')
    return new Attacker(child)
  }

  /** What the rounds need. @throws Error: it was not made */
  async prepare(order: Played): Promise<void> {
    const { failure } = await this.#order({ kind: 'prepare', ...order }, order.timeoutMs + marginMs)
    if (failure !== undefined) throw new Error(`${order.name} was not prepared: ${failure}`)
  }

  /** One round; what it holds open stays until `end`. */
  play(order: Played): Promise<AttackerAnswer> {
    return this.#order({ kind: 'play', ...order }, order.timeoutMs + marginMs)
  }

  end(): Promise<AttackerAnswer> {
    return this.#order({ kind: 'end' }, marginMs)
  }

  /** What was prepared is gone then, as far as it is made for a stack that goes on. */
  async clean(): Promise<void> {
    const { failure } = await this.#order({ kind: 'clean' }, cleanMs)
    if (failure !== undefined) throw new Error(`what was prepared is still there: ${failure}`)
  }

  async stop(): Promise<void> {
    this.#child.kill('SIGKILL')
    await this.#exited
  }

  async #order(order: AttackerOrder, timeoutMs: number): Promise<AttackerAnswer> {
    const answered = once(this.#child, 'message')
    this.#child.send(order)
    const ended = this.#exited.then(() => [{ failure: 'the attacker has ended' }])
    const [answer] = await abortable(Promise.race([answered, ended]), AbortSignal.timeout(timeoutMs))
    return answer as AttackerAnswer
  }
}
