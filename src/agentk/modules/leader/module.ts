import { Gauge } from 'prom-client'
import type { Clock } from '../../../lib/clock.ts'
import type { Logger } from '../../../lib/log.ts'
import { pause } from '../../../lib/pause.ts'
import type { Service } from '../../../lib/service.ts'
import type { Election } from '../../election/election.ts'
import type { Term } from '../../election/terms.ts'
import type { AgentkHost, AgentkModule } from '../../module.ts'

/** Reports the leader in the log and in a metric. While this pod leads, it writes one debug line a second. */
export function createLeader(host: Pick<AgentkHost, 'election' | 'register' | 'clock' | 'log'>): AgentkModule {
  const { election, register, clock } = host
  new Gauge({
    name: 'agentk_leader',
    help: '1 while this pod leads',
    registers: [register],
    collect() {
      this.set(Number(election.holds()))
    },
  })
  const leader = new Leader({ election, clock, log: host.log('leader') })
  return { services: [leader], lead: leader.lead }
}

interface LeaderComponents {
  readonly election: Pick<Election, 'identity' | 'leader' | 'holds' | 'onChange'>
  readonly log: Logger
  readonly clock: Clock
}

/** Interval of the debug line while this pod leads. ms */
const workMs = 1000

class Leader implements Service {
  readonly #components: LeaderComponents
  #led = false

  constructor(components: LeaderComponents) {
    this.#components = components
  }

  async start(): Promise<void> {
    this.#components.election.onChange(() => this.#say())
  }

  async stop(): Promise<void> {
    this.#say()
  }

  readonly lead = async ({ signal, holds }: Term): Promise<void> => {
    const { election, log, clock } = this.#components
    while (!signal.aborted) {
      if (holds()) log.debug({ identity: election.identity }, 'Working as leader')
      else if (this.#led) this.#say() // the pod was frozen, and the election has not noticed yet
      await pause(workMs, clock, signal)
    }
  }

  #say(): void {
    const { election, log } = this.#components
    const leads = election.holds()
    if (leads && !this.#led) log.info({ identity: election.identity }, 'This pod leads')
    else if (!leads && this.#led) log.info({ identity: election.identity }, 'This pod does not lead any more')
    if (!leads && election.leader && election.leader !== election.identity) {
      log.info({ leader: election.leader }, 'Another pod leads')
    }
    this.#led = leads
  }
}
