import { EventEmitter } from 'node:events'
import t from 'tap'
import type { WebSocket } from 'ws'
import { defaultKubernetesLimits } from '../../../../../../src/kas/servers/kubernetes/http/kubernetes-limits.ts'
import { ClientSocket } from '../../../../../../src/kas/servers/kubernetes/websocket/client-socket.ts'
import { ByteBudget } from '../../../../../../src/lib/byte-budget.ts'
import { ManualClock } from '../../../../../support/manual-clock.ts'

/** A client that takes messages when the test says so. */
class SlowClient extends EventEmitter {
  readonly OPEN = 1
  readyState = 1
  bufferedAmount = 0
  terminated = false
  readonly #sent: (() => void)[] = []

  send(text: string, sent: () => void): void {
    this.bufferedAmount += text.length
    this.#sent.push(sent)
  }

  takeAll(): void {
    this.bufferedAmount = 0
    for (const sent of this.#sent.splice(0)) sent()
  }

  terminate(): void {
    this.terminated = true
  }
}

t.test('who sends goes on while little waits, and waits for its own message beyond that', async (t) => {
  const clock = new ManualClock()
  const client = new SlowClient()
  const socket = new ClientSocket(client as unknown as WebSocket, clock, defaultKubernetesLimits)
  t.equal(socket.send('x'), undefined)
  const large = socket.send('y'.repeat(defaultKubernetesLimits.maxWatchUnsentBytes))
  let taken = false
  void large?.then(() => {
    taken = true
  })
  clock.advance(defaultKubernetesLimits.ownSocketWriteTimeoutMs - 1)
  t.notOk(taken, 'it counts as kept for so long')
  client.takeAll()
  await large
  t.equal(socket.send('z'), undefined)
  clock.advance(1)
  t.notOk(client.terminated, 'no dead-line is left')
})

t.test('what a client has not taken counts as kept for it', async (t) => {
  const client = new SlowClient()
  const memory = new ByteBudget(5)
  const socket = new ClientSocket(client as unknown as WebSocket, new ManualClock(), defaultKubernetesLimits, memory)
  void socket.send('xxx')
  void socket.sent('yy')
  t.throws(() => memory.take(1), { code: 'MESSAGE_TOO_LARGE' })
  client.takeAll()
  memory.take(5)
})

t.test('a client that does not take it is cut', async (t) => {
  const clock = new ManualClock()
  const client = new SlowClient()
  const socket = new ClientSocket(client as unknown as WebSocket, clock, defaultKubernetesLimits)
  t.ok(socket.send('y'.repeat(defaultKubernetesLimits.maxWatchUnsentBytes)))
  clock.advance(defaultKubernetesLimits.ownSocketWriteTimeoutMs)
  t.ok(client.terminated)
})
