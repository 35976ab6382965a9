import { EventEmitter } from 'node:events'
import type { Socket } from 'node:net'
import t from 'tap'
import type { AgentId } from '../../../../../../src/call/call.ts'
import { ClientAddresses } from '../../../../../../src/kas/servers/addresses/client-addresses.ts'
import { Connection, type Running } from '../../../../../../src/kas/servers/kubernetes/http/connection.ts'
import { IdleConnections } from '../../../../../../src/kas/servers/kubernetes/http/idle-connections.ts'
import { Counter } from '../../../../../../src/lib/counter.ts'

const agentId = 42n as AgentId

class FakeSocket extends EventEmitter {
  destroyed = false

  destroy(): void {
    this.destroyed = true
    this.emit('close')
  }

  destroySoon(): void {
    this.destroy()
  }
}

function start() {
  const socket = new FakeSocket()
  const parts = {
    idle: new IdleConnections(10, () => undefined),
    callers: new Counter<AgentId>(),
    addresses: new ClientAddresses(),
  }
  const connection = new Connection(socket as unknown as Socket, parts)
  const begun: number[] = []
  const arrive = (name: number): Running => {
    const ignore = () => undefined
    const exchange = {
      begun: false,
      isRequestRead: true,
      isChunked: false,
      leavesEarly: undefined,
      leave: ignore,
      endStream: ignore,
      cut: ignore,
    }
    connection.add(exchange)
    connection.serve(() => void begun.push(name))
    return exchange
  }
  return { socket, connection, begun, arrive }
}

t.test('requests of a stranger are served one after the other', async (t) => {
  const { connection, begun, arrive } = start()
  const [first, second] = [arrive(1), arrive(2), arrive(3)]
  t.same(begun, [1])
  connection.delete(first)
  t.same(begun, [1, 2])
  connection.delete(second)
  t.same(begun, [1, 2, 3])
})

t.test('once he is let in those that wait are served at once, in their order, and so are later ones', async (t) => {
  const { connection, begun, arrive } = start()
  const [first] = [arrive(1), arrive(2), arrive(3)]
  connection.letIn(agentId, 'a')
  t.same(begun, [1, 2, 3])
  arrive(4)
  t.same(begun, [1, 2, 3, 4])
  connection.delete(first)
  t.same(begun, [1, 2, 3, 4], 'each once')
})

t.test('none that waits is served once he has left', async (t) => {
  for (const leavesFirst of [true, false]) {
    const { socket, connection, begun, arrive } = start()
    const [first] = [arrive(1), arrive(2)]
    if (leavesFirst) socket.destroy()
    else socket.destroyed = true // its event 'close' follows
    connection.delete(first)
    connection.letIn(agentId, 'a')
    t.same(begun, [1])
  }
})
