import type { Socket } from 'node:net'
import { PassThrough } from 'node:stream'
import t from 'tap'
import {
  freeHeadBytes,
  freeHeadLines,
  HeadMeter,
  HeadRoom,
} from '../../../../../../src/kas/servers/kubernetes/http/head-room.ts'

const mib = 2 ** 20

function start({ maxBytes = 16 * mib, maxLines = 50_000, address = '10.0.0.1', room = new HeadRoom(maxBytes) } = {}) {
  const socket = new PassThrough()
  const world = { refused: 0, body: undefined as 'plain' | 'chunked' | undefined }
  const refuse = () => void world.refused++
  const meter = new HeadMeter(socket as unknown as Socket, {
    room,
    address,
    maxLines,
    bodyNow: () => world.body,
    refuse,
  })
  const come = (chunk: string | Buffer) => void socket.emit('data', Buffer.from(chunk))
  return { room, meter, world, come, socket }
}

t.test('a short head takes nothing; of a long one what is over counts, until its caller is known', async (t) => {
  const { room, meter, come, world } = start()
  come('a'.repeat(freeHeadBytes))
  t.equal(room.bytes, 0)
  come('a'.repeat(1000))
  t.equal(room.bytes, 1000)
  const give = meter.end()
  t.equal(room.bytes, 1000, 'it is the request\u2019s now')
  come('a'.repeat(freeHeadBytes))
  t.equal(room.bytes, 1000, 'the next head begins anew')
  give?.()
  t.equal(room.bytes, 0)
  t.equal(world.refused, 0)
})

t.test('lines cost more than their bytes', async (t) => {
  const { room, come, world } = start({ maxLines: 1000 })
  come('ab:\r\n'.repeat(freeHeadLines))
  t.equal(room.bytes, 0)
  come('ab:\r\n'.repeat(100))
  t.equal(room.bytes, 100 * 256)
  come('ab:\r\n'.repeat(400))
  t.equal(world.refused, 0)
  come('ab:\r\n')
  t.equal(world.refused, 1)
})

t.test('without room it is refused, and a connection that closes gives all back', async (t) => {
  const { room, come, world, socket } = start({ maxBytes: mib })
  come(Buffer.alloc(mib))
  come(Buffer.alloc(freeHeadBytes))
  t.equal(world.refused, 0)
  t.equal(room.bytes, mib)
  come('a')
  t.equal(world.refused, 1)
  t.equal(room.bytes, mib, 'nothing is taken by what is refused')
  socket.destroy()
  await new Promise((resolve) => socket.once('close', resolve))
  t.equal(room.bytes, 0)
})

t.test('attack: a long head in small pieces, which node would copy again and again', async (t) => {
  const tiny = start()
  let bytes = 0
  for (; bytes < mib && tiny.world.refused === 0; bytes += 100) tiny.come(Buffer.alloc(100, 'a'))
  t.equal(tiny.world.refused, 1)
  t.ok(bytes < mib / 2, `after ${bytes} bytes`)
  const usual = start()
  for (let i = 0; i < mib / 1400; i++) usual.come(Buffer.alloc(1400, 'a'))
  t.equal(usual.world.refused, 0, 'the pieces of a network are longer')
})

t.test('bodies are not counted, but for what is between their bytes', async (t) => {
  const { room, meter, come, world } = start()
  world.body = 'plain'
  for (let i = 0; i < 100; i++) come(Buffer.alloc(65_536))
  world.body = 'chunked'
  for (let i = 0; i < 100; i++) {
    come(Buffer.alloc(65_536))
    meter.onBody()
  }
  t.strictSame([room.bytes, world.refused], [0, 0])
  come(Buffer.alloc(65_536))
  come(Buffer.alloc(65_536))
  t.equal(world.refused, 0)
  come('a')
  t.equal(world.refused, 1)
})

t.test(
  'attack: one address takes all room; one of another network, or of the same one, has what it makes room for',
  async (t) => {
    for (const address of ['10.9.9.9', '10.0.0.9']) {
      const room = new HeadRoom(8 * mib)
      const evil = Array.from({ length: 8 }, () => start({ room }))
      for (const { come } of evil) come(Buffer.alloc(mib + freeHeadBytes))
      const good = start({ room, address })
      good.come(Buffer.alloc(mib))
      t.equal(good.world.refused, 0, address)
      t.equal(evil.filter(({ world }) => world.refused === 1).length, 1, 'one of those that hold most makes room')
      const more = start({ room })
      more.come(Buffer.alloc(mib))
      t.equal(more.world.refused, 1, 'whoever has most is refused')
      t.equal(evil.filter(({ world }) => world.refused > 0).length, 1)
    }
  },
)

t.test('attack: so it is while callers are being checked', async (t) => {
  const room = new HeadRoom(8 * mib)
  const evil = Array.from({ length: 8 }, () => start({ room }))
  const gives = evil.map(({ come, meter }) => {
    come(Buffer.alloc(mib + freeHeadBytes))
    return meter.end()
  })
  const good = start({ room, address: '10.9.9.9' })
  good.come(Buffer.alloc(mib))
  t.equal(good.world.refused, 0)
  t.equal(evil.filter(({ socket }) => socket.destroyed).length, 1)
  for (const give of gives) give?.()
  t.equal(room.bytes, mib - freeHeadBytes, 'nothing is given back twice')
})
