import { networkOf } from '../../lib/host-port.ts'
import { CountedLines, type CountedLinesComponents } from './counted-lines.ts'

/** What was refused of an address by which nobody was let in. */
export interface Refused {
  readonly event: 'refused' | 'agent_refused'
  /** a code of doc/errors.md, or an outcome */
  readonly reason: string
  readonly address: string
}

/** Addresses that are counted one by one in a minute, networks of IPv6: those beyond are counted as one. */
export const maxStrangers = 1000

/** Refusals of strangers: the first of an address at once, the others of a minute as a line with their number. */
export class RefusedStrangers {
  readonly #lines: CountedLines<Refused>

  constructor(components: CountedLinesComponents<Refused>) {
    const others = (refused: Refused) => ({ ...refused, address: 'others' })
    this.#lines = new CountedLines(components, { atOnce: 1, maxKeys: maxStrangers, others })
  }

  /** @returns whether it is the first of its address in a while, and not counted: its line is the caller's to write */
  add(refused: Refused): boolean {
    return this.#lines.add(networkOf(refused.address), refused)
  }

  /** Reports what is counted by now. */
  stop(): void {
    this.#lines.stop()
  }
}
