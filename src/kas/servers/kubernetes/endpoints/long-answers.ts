import { Turns } from '../../../../lib/turns.ts'

/**
 * Answers made at once. Each takes about 12 MiB: peers' replies, texts, and bytes that count for the client once sent.
 */
const maxMade = 4
/** Answers that are made at once for one caller. */
const maxMadeOfCaller = 2

/**
 * Makes long answers of kas' own endpoints, few at once. Tenants take turns, and a caller has a bound for all tenants
 * together. A caller that leaves ends its wait; an answer that is being made keeps its turn until it is made.
 */
export class LongAnswers {
  readonly #ofCallers = new Turns<string>({ maxRunningOfSource: maxMadeOfCaller })
  readonly #ofTenants = new Turns<string>({ maxRunning: maxMade })

  /** @throws the signal's reason, or the error of `make` */
  make<T>(tenant: string, callerKey: string, signal: AbortSignal, make: () => Promise<T>): Promise<T> {
    return this.#ofCallers.run(callerKey, signal, () => this.#ofTenants.run(tenant, signal, make))
  }
}
