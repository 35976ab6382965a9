import { KasError } from '../../lib/errors.ts'
import type { Logger } from '../../lib/log.ts'
import type { Service } from '../../lib/service.ts'
import type { Election } from './election.ts'

/** Time in which this pod leads, until another pod does. */
export interface Term {
  /** aborts when another pod leads, or agentk stops */
  readonly signal: AbortSignal
  /**
   * True if this pod may act now. Ask before each action. A pod that was frozen, or cannot renew its lease, must not
   * act. It leads again in the same term if no other pod has taken over.
   */
  holds(): boolean
}

export interface TermsComponents {
  readonly election: Pick<Election, 'identity' | 'leader' | 'holds' | 'onChange'>
  readonly log: Logger
}

/** Runs `lead` once per term, after the run of the term before has ended. */
export class Terms implements Service {
  readonly #components: TermsComponents
  readonly #lead: (term: Term) => Promise<void>
  #isStarted = false
  #term: AbortController | undefined
  #running: Promise<void> = Promise.resolve()

  constructor(components: TermsComponents, lead: (term: Term) => Promise<void>) {
    this.#components = components
    this.#lead = lead
  }

  async start(): Promise<void> {
    this.#isStarted = true
    this.#components.election.onChange(() => this.#update())
    this.#update()
  }

  async stop(): Promise<void> {
    this.#isStarted = false
    this.#update()
    await this.#running
  }

  #update(): void {
    const { election, log } = this.#components
    const leads = this.#isStarted && (election.holds() || this.#mayLeadAgain())
    if (leads === (this.#term !== undefined)) return
    this.#term?.abort(new KasError({ code: 'CANCELLED', detail: 'this pod does not lead any more' }))
    this.#term = undefined
    if (!leads) return
    const term = new AbortController()
    this.#term = term
    this.#running = this.#running
      .then(() => this.#lead({ signal: term.signal, holds: () => election.holds() }))
      .catch((error: unknown) => log.error({ error }, 'Work of the pod that leads has failed'))
  }

  #mayLeadAgain(): boolean {
    const { leader, identity } = this.#components.election
    return this.#term !== undefined && leader === identity
  }
}
