import { systemClock } from '../../src/lib/clock.ts'
import { createLogger } from '../../src/lib/log.ts'
import { createRegistry } from '../../src/lib/metrics.ts'
import { Membership } from '../../src/membership/membership.ts'
import { connection } from '../unit/membership/rows.ts'
import { ListedSource, secret, shortTimers } from './replicas.ts'

/** A replica in a process of its own, with one connection of agent 42: `node replica-program.ts NAME PORT`. */

const [, , name = '', port = '0'] = process.argv
const membership = new Membership(
  {
    log: createLogger({ level: 'silent' }),
    clock: systemClock,
    sources: [new ListedSource([])],
    metrics: createRegistry(),
  },
  {
    name,
    secret,
    listen: { host: '127.0.0.1', port: Number(port) },
    replica: { port: 8155 },
    publicKeyHash: 'cd'.repeat(32),
    kasVersion: '0.1.0',
    timers: shortTimers,
  },
)
membership.addConnection(connection('1'))
await membership.start()
membership.setState('serving')
process.stdout.write(`${JSON.stringify({ port: membership.port, instance: membership.instance })}\n`)
