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
  /** reason if it was cut short */
  readonly failure?: string
  /** CPU time of the process so far */
  readonly cpuMs?: number
}

/** time that an order may take beyond its limit. ms */
const marginMs = 10_000
/** limit for the removal of objects in a cluster. ms */
const cleanMs = 60_000

/** The evil tenant, as a process of its own, so that its CPU time is not the load's. */
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

  /** Makes the state that the rounds need. @throws Error if that fails */
  async prepare(order: Played): Promise<void> {
    const { failure } = await this.#order({ kind: 'prepare', ...order }, order.timeoutMs + marginMs)
    if (failure !== undefined) throw new Error(`${order.name} was not prepared: ${failure}`)
  }

  /** Plays one round; its connections stay open until `end`. */
  play(order: Played): Promise<AttackerAnswer> {
    return this.#order({ kind: 'play', ...order }, order.timeoutMs + marginMs)
  }

  end(): Promise<AttackerAnswer> {
    return this.#order({ kind: 'end' }, marginMs)
  }

  /** Removes the prepared state, where the stack goes on after the attack. @throws Error if that fails */
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
