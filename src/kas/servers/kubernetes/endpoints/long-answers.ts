import { Turns } from '../../../../lib/turns.ts'

/** Each is some 12 MiB while it is made: what peers say, texts, and the bytes that its client's share counts once they are sent. */
const maxMade = 4
const maxMadeOfCaller = 2

/**
 * Long answers of kas' own endpoints, of which few are made at once. Tenants take turns, and a caller has one part of them,
 * whatever tenants it asks about. Whoever leaves ends its wait; an answer that is being made keeps its turn until it is made.
 */
export class LongAnswers {
  readonly #ofCallers = new Turns<string>({ maxRunningOfSource: maxMadeOfCaller })
  readonly #ofTenants = new Turns<string>({ maxRunning: maxMade })

  /** @throws the signal's reason, what `make` throws */
  make<T>(tenant: string, callerKey: string, signal: AbortSignal, make: () => Promise<T>): Promise<T> {
    return this.#ofCallers.run(callerKey, signal, () => this.#ofTenants.run(tenant, signal, make))
  }
}
