import { EventEmitter } from 'node:events'
import type { Socket } from 'node:net'
import t from 'tap'
import { Newcomers } from '../../../../src/kas/servers/newcomers.ts'
import { ManualClock } from '../../../support/manual-clock.ts'

const options = { maxSilentPerAddress: 2, maxSilent: 3, maxSilenceMs: 60_000 }

function start() {
  const clock = new ManualClock()
  const refused: string[] = []
  const newcomers = new Newcomers({ clock, refused: (reason) => refused.push(reason) }, options)
  let port = 0
  const arrive = (address: string) => {
    const emitter = new EventEmitter()
    const socket = Object.assign(emitter, {
      remoteAddress: address,
      remotePort: ++port,
      destroyed: false,
      destroy: () => {
        socket.destroyed = true
        emitter.emit('close')
      },
    })
    newcomers.arrived(socket as unknown as Socket)
    return { socket, name: `${address}:${port}` }
  }
  return { clock, refused, newcomers, arrive }
}

t.test('of one address, and of all, the longest silent makes room', async (t) => {
  const { refused, arrive } = start()
  const [a1, a2, a3] = [arrive('a'), arrive('a'), arrive('a')]
  t.same(
    [a1, a2, a3].map(({ socket }) => socket.destroyed),
    [true, false, false],
  )
  const [b1, c1] = [arrive('b'), arrive('c')]
  t.same(
    [a2, a3, b1, c1].map(({ socket }) => socket.destroyed),
    [true, false, false, false],
  )
  a3.socket.destroy()
  const d1 = arrive('d')
  t.same(
    [b1, c1, d1].map(({ socket }) => socket.destroyed),
    [false, false, false],
    'one had left',
  )
  t.same(refused, ['too_many_connections', 'too_many_connections'])
})

t.test('one that is asked about is not silent, one that is let in is no newcomer', async (t) => {
  const { newcomers, arrive, clock, refused } = start()
  const [asked, agent] = [arrive('a'), arrive('a')]
  newcomers.asks(asked.name)
  newcomers.asks(asked.name)
  newcomers.asks(agent.name)
  newcomers.letIn(agent.name)
  for (let i = 0; i < 5; i++) arrive('a')
  t.same(
    [asked, agent].map(({ socket }) => socket.destroyed),
    [false, false],
  )
  newcomers.refused(asked.name)
  newcomers.refused(agent.name)
  clock.advance(options.maxSilenceMs)
  newcomers.check()
  t.same(
    [asked, agent].map(({ socket }) => socket.destroyed),
    [false, false],
    'a call of it still waits',
  )
  newcomers.refused(asked.name)
  newcomers.check()
  t.equal(asked.socket.destroyed, false, 'its silence begins')
  clock.advance(options.maxSilenceMs)
  newcomers.check()
  t.same(
    [asked, agent].map(({ socket }) => socket.destroyed),
    [true, false],
  )
  t.equal(refused.filter((reason) => reason === 'too_slow').length, 3)
})

t.test('what has no address is left alone', async (t) => {
  const { newcomers, clock, refused } = start()
  for (let i = 0; i < 5; i++) newcomers.arrived(new EventEmitter() as unknown as Socket)
  clock.advance(2 * options.maxSilenceMs)
  newcomers.check()
  t.same(refused, [])
})
