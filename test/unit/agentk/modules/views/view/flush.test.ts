import t from 'tap'
import { Flush } from '../../../../../../src/agentk/modules/views/view/flush.ts'
import { ManualClock } from '../../../../../support/manual-clock.ts'

function stage(parts: (seq: number) => { text: string; isPart?: boolean } | undefined) {
  const clock = new ManualClock()
  const sent: [at: number, seq: number, text: string][] = []
  const start = clock.now()
  const flush = new Flush({
    clock,
    inTurn: (action) => {
      action()
      return () => undefined
    },
    onDue: () => undefined,
    make: (seq) => {
      const part = parts(seq)
      return part && { json: Buffer.from(part.text), isPart: part.isPart ?? false }
    },
    send: (seq, json) => sent.push([clock.now() - start, seq, Buffer.from(json).toString()]),
  })
  return { clock, sent, flush }
}

t.test('the first at once, then in steps of 50 ms, with what holds then', async (t) => {
  let state = 'a'
  const { clock, sent, flush } = stage(() => ({ text: state }))
  flush.request()
  clock.advance(0)
  flush.taken(1)
  clock.advance(10)
  state = 'b'
  flush.request()
  clock.advance(20)
  state = 'c'
  flush.request()
  clock.advance(100)
  t.strictSame(sent, [
    [0, 1, 'a'],
    [50, 2, 'c'],
  ])
  flush.taken(2)
  flush.request()
  clock.advance(0)
  t.strictSame(sent.at(-1), [130, 3, 'c'], 'after a while without, at once again')
})

t.test('the next one only once the one before was taken', async (t) => {
  const { clock, sent, flush } = stage(() => ({ text: 'x' }))
  flush.request()
  clock.advance(0)
  flush.request()
  clock.advance(1000)
  t.equal(sent.length, 1)
  flush.taken(7)
  clock.advance(0)
  t.equal(sent.length, 1, 'that was another one')
  flush.taken(1)
  clock.advance(0)
  t.strictSame(sent.at(-1), [1000, 2, 'x'])
  flush.taken(2)
  clock.advance(1000)
  t.equal(sent.length, 2, 'nothing was asked for')
})

t.test('the rest follows by itself; where nothing differs, nothing is sent', async (t) => {
  const { clock, sent, flush } = stage((seq) => (seq < 3 ? { text: `${seq}`, isPart: seq === 1 } : undefined))
  flush.request()
  clock.advance(0)
  flush.taken(1)
  clock.advance(50)
  t.equal(sent.length, 2)
  flush.taken(2)
  flush.request()
  clock.advance(1000)
  t.equal(sent.length, 2)
  flush.request()
  flush.close()
  t.equal(clock.pending, 0)
})
