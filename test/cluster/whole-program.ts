import type { Test } from 'tap'
import { startWholeReplica } from './whole-replica.ts'

/** A whole replica in a process of its own: `node whole-program.ts NAME ADDRESS...`. It ends with its process. */

const [, , name = '', ...listed] = process.argv
const process_ = { teardown: () => undefined } as unknown as Test
const { replica, agentsPort } = await startWholeReplica(process_, name, { listed })
const { instance } = replica.membership
process.stdout.write(`${JSON.stringify({ address: replica.address, agentsPort, instance })}\n`)
