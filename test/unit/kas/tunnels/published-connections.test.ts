import t from 'tap'
import type { AgentId } from '../../../../src/call/call.ts'
import type { Agent } from '../../../../src/kas/agent.ts'
import type { AgentConnection } from '../../../../src/kas/tunnels/agent-connection.ts'
import { PublishedConnections } from '../../../../src/kas/tunnels/published-connections.ts'
import { createLogger } from '../../../../src/lib/log.ts'
import type { RowConnection } from '../../../../src/membership/membership.ts'

const agent = { id: 42n as AgentId, project: { id: 7n } } as Agent
const methodsOf = (prefix: string, count: number) =>
  new Set(Array.from({ length: count }, (_, i) => `/${prefix}.S/M${i}`))

function start() {
  const added: RowConnection[] = []
  const removed: string[] = []
  const row = { keeps: true }
  const published = new PublishedConnections({
    row: {
      addConnection: (entry) => {
        added.push(entry)
        return row.keeps
      },
      removeConnection: (id) => void removed.push(id),
    },
    log: createLogger({ level: 'silent' }),
  })
  const closed = Promise.withResolvers<void>()
  const retire = new AbortController()
  const connection = { session: { closed: closed.promise }, retired: retire.signal } as unknown as AgentConnection
  return { published, row, added, removed, connection, retire, close: () => closed.resolve() }
}

t.test('descriptors that alternate on one connection are told once, all together', async (t) => {
  const { published, added, connection } = start()
  const [one, other] = [methodsOf('a', 3), methodsOf('b', 2)]
  for (let i = 0; i < 10; i++) {
    published.described(agent, connection, one)
    published.described(agent, connection, other)
  }
  t.equal(added.length, 2)
  t.strictSame(added[1]?.methods, [...one, ...other])
})

t.test('of many descriptors on one connection 256 methods are told', async (t) => {
  const { published, added, connection } = start()
  const sets = Array.from({ length: 64 }, (_, i) => methodsOf(`s${i}`, 200))
  for (let round = 0; round < 3; round++) for (const methods of sets) published.described(agent, connection, methods)
  t.equal(added.length, 2)
  t.equal(added[1]?.methods.length, 256)
})

t.test('what the row does not keep is offered again at the next Connect', async (t) => {
  const { published, row, added, removed, connection, retire, close } = start()
  const methods = methodsOf('a', 1)
  row.keeps = false
  published.described(agent, connection, methods)
  published.described(agent, connection, methods)
  t.equal(added.length, 2)
  row.keeps = true
  published.described(agent, connection, methods)
  published.described(agent, connection, methods)
  t.equal(added.length, 3)
  retire.abort()
  t.strictSame(added.at(-1)?.methods, [])
  close()
  await new Promise((resolve) => setImmediate(resolve))
  t.strictSame(removed, [added[2]?.id])
})
