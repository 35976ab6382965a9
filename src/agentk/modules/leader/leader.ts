import type { Clock } from '../../../lib/clock.ts'
import type { Logger } from '../../../lib/log.ts'
import type { Service } from '../../../lib/service.ts'

export interface LeaderComponents {
  readonly election: {
    readonly identity: string
    readonly leader: string
    holds(): boolean
    onChange(listener: () => void): void
  }
  readonly log: Logger
  readonly clock: Clock
}

/** Work that one pod does is done this often. */
const workMs = 1000

/** Says who leads. Its work, while this pod leads, is one line a second in the debug log. */
export class Leader implements Service {
  readonly #components: LeaderComponents
  #led = false
  #cancel: (() => void) | undefined

  constructor(components: LeaderComponents) {
    this.#components = components
  }

  async start(): Promise<void> {
    this.#components.election.onChange(() => this.#tell())
    this.#work()
  }

  async stop(): Promise<void> {
    this.#cancel?.()
    this.#tell()
  }

  #tell(): void {
    const { election, log } = this.#components
    const leads = election.holds()
    if (leads && !this.#led) log.info({ identity: election.identity }, 'This pod leads')
    else if (!leads && this.#led) log.info({ identity: election.identity }, 'This pod does not lead any more')
    if (!leads && election.leader && election.leader !== election.identity) {
      log.info({ leader: election.leader }, 'Another pod leads')
    }
    this.#led = leads
  }

  #work(): void {
    const { election, log, clock } = this.#components
    // asked each time: a process that was frozen has not been told that its term is over
    if (election.holds()) log.debug({ identity: election.identity }, 'Working as leader')
    else if (this.#led) this.#tell()
    this.#cancel = clock.after(workMs, () => this.#work())
  }
}
