import { EventEmitter } from 'node:events'
import type { Socket } from 'node:net'
import type { Server } from 'node:tls'
import t from 'tap'
import { beginInTurns } from '../../../src/lib/tls-turns.ts'

const turn = () => new Promise((resolve) => setImmediate(resolve))

t.test('a connection that ends while it waits takes no turn from the others', async (t) => {
  const server = new EventEmitter()
  const begun: string[] = []
  server.on('connection', ({ name }: { name: string }) => begun.push(name))
  beginInTurns(server as Server)
  const arrive = (name: string) => {
    const socket = Object.assign(new EventEmitter(), { name, remoteAddress: '127.0.0.1', destroyed: false })
    server.emit('connection', socket as unknown as Socket)
    return socket
  }
  const [, , third] = ['1', '2', '3', '4', '5', '6'].map(arrive)
  t.same(begun, ['1', '2'])
  third?.emit('close')
  await turn()
  t.same(begun, ['1', '2', '4', '5'])
  await turn()
  t.same(begun, ['1', '2', '4', '5', '6'])
})
