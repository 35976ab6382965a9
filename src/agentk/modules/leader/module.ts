import { Gauge } from 'prom-client'
import type { AgentkHost, AgentkModule } from '../../module.ts'
import { Leader } from './leader.ts'

/** Says who leads, in the log and in the metrics. */
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
