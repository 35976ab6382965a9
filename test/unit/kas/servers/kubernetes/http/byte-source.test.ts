import { PassThrough } from 'node:stream'
import t from 'tap'
import { ByteSource, maxWaitingBytes } from '../../../../../../src/kas/servers/kubernetes/http/byte-source.ts'
import { KasError } from '../../../../../../src/lib/errors.ts'
import { settle } from '../../../../../support/manual-clock.ts'

t.test('chunks as they came, then the end', async (t) => {
  const stream = new PassThrough()
  const source = new ByteSource(stream)
  const first = source.read()
  stream.write('a')
  t.same(await first, Buffer.from('a'))
  stream.write('b')
  stream.write('c')
  stream.end()
  await settle()
  t.same(await source.read(), Buffer.from('b'))
  t.same(await source.read(), Buffer.from('c'))
  t.equal(await source.read(), undefined)
  t.equal(await source.read(), undefined)
})

t.test('its sender is stopped while nobody reads', async (t) => {
  const stream = new PassThrough({ highWaterMark: 1024 * 1024 })
  const source = new ByteSource(stream)
  const chunk = Buffer.alloc(16 * 1024)
  for (let i = 0; i < 20; i++) stream.write(chunk)
  await settle()
  t.ok(stream.isPaused())
  t.equal(
    stream.readableLength,
    20 * chunk.length - maxWaitingBytes,
    'what it costs counts too, and is less than a chunk',
  )
  for (let i = 0; i < 20; i++) t.equal((await source.read())?.length, chunk.length)
  t.notOk(stream.isPaused())
})

t.test('chunks of a byte count with what they cost', async (t) => {
  const stream = new PassThrough({ highWaterMark: 1024 * 1024 })
  const source = new ByteSource(stream)
  let given = 0
  stream.on('data', () => given++)
  for (let i = 0; i < 10_000; i++) stream.write('x')
  await settle()
  t.ok(stream.isPaused())
  t.ok(given < 300, `${given} chunks wait`)
  for (let i = 0; i < 10_000; i++) t.equal((await source.read())?.length, 1)
  t.notOk(stream.isPaused())
})

t.test('a failure ends the read that waits and all later ones', async (t) => {
  const stream = new PassThrough()
  const source = new ByteSource(stream)
  const waiting = source.read()
  source.fail(new KasError({ code: 'CANCELLED' }))
  source.fail(new KasError({ code: 'INTERNAL' }))
  await t.rejects(waiting, { code: 'CANCELLED' })
  await t.rejects(source.read(), { code: 'CANCELLED' })
  t.equal(stream.listenerCount('data'), 0)
  stream.write('dropped')
  await settle()
  t.equal(stream.readableLength, 0, 'what comes is let go')
})
