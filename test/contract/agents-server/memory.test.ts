import assert from 'node:assert/strict'
import { once } from 'node:events'
import { connect } from 'node:net'
import { setFlagsFromString } from 'node:v8'
import { runInNewContext } from 'node:vm'
import t from 'tap'
import type { AgentConnection } from '../../../src/kas/tunnels/agent-connection.ts'
import { startAgentsServer } from '../../support/agents-server.ts'
import { eventually } from '../../support/eventually.ts'

const preface = Buffer.from('PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n')
const settings = Buffer.from([0, 0, 0, 4, 0, 0, 0, 0, 0])
const goaway = Buffer.from([0, 0, 8, 7, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0])
const connections = 20

t.test('connections that left before they acknowledged the SETTINGS of kas are not kept', async (t) => {
  setFlagsFromString('--expose-gc')
  const collect = runInNewContext('gc') as () => void
  const { server, port } = await startAgentsServer(t)
  const seen: WeakRef<AgentConnection>[] = []
  for (let i = 0; i < connections; i++) {
    const socket = connect({ port, host: '127.0.0.1' })
    t.teardown(() => socket.destroy())
    socket.write(Buffer.concat([preface, settings]))
    await eventually(() => assert.equal(server.connections.size, 1))
    for (const connection of server.connections) seen.push(new WeakRef(connection))
    socket.end(goaway)
    socket.resume()
    await once(socket, 'close')
    await eventually(() => assert.equal(server.connections.size, 0))
  }
  t.equal(seen.length, connections)
  await eventually(() => {
    collect()
    const kept = seen.filter((connection) => connection.deref()).length
    assert.ok(kept <= 1, `${kept} are kept`) // the last one may still be on the stack
  })
})
