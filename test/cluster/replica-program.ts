import { createMembership } from '../support/membership.ts'
import { connection } from '../unit/membership/rows.ts'
import { ListedSource, shortTimers } from './replicas.ts'

/** A replica in a process of its own, with one connection of agent 42: `node replica-program.ts NAME PORT`. */

const [, , name = '', port = '0'] = process.argv
const membership = createMembership(
  { name, listen: { host: '127.0.0.1', port: Number(port) }, timers: shortTimers },
  { sources: [new ListedSource([])] },
)
membership.addConnection(connection('1'))
await membership.start()
membership.setState('serving')
process.stdout.write(`${JSON.stringify({ port: membership.port, instance: membership.instance })}\n`)
