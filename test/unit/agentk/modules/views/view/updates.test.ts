import t from 'tap'
import { Updates } from '../../../../../../src/agentk/modules/views/view/updates.ts'
import { ManualClock } from '../../../../../support/manual-clock.ts'

function stage(
  parts: (seq: number) => { text: string; isPart?: boolean } | undefined,
  { clock = new ManualClock() }: { clock?: ManualClock } = {},
) {
  const sent: [at: number, seq: number, text: string][] = []
  const start = clock.now()
  const updates = new Updates({
    clock,
    turn: () => undefined,
    onDue: () => undefined,
    write: (update) => {
      const part = parts(sent.length + 1)
      if (part) update.add(['gone', JSON.stringify(part.text)])
      return !part?.isPart
    },
    send: (seq, json) => sent.push([clock.now() - start, seq, JSON.parse(Buffer.from(json).toString()).gone.join()]),
  })
  return { clock, sent, updates }
}

t.test('the first at once, then in steps of 50 ms, with what holds then', async (t) => {
  let state = 'a'
  const { clock, sent, updates } = stage(() => ({ text: state }))
  updates.request()
  clock.advance(0)
  updates.taken(1)
  clock.advance(10)
  state = 'b'
  updates.request()
  clock.advance(20)
  state = 'c'
  updates.request()
  clock.advance(100)
  t.strictSame(sent, [
    [0, 1, 'a'],
    [50, 2, 'c'],
  ])
  updates.taken(2)
  updates.request()
  clock.advance(0)
  t.strictSame(sent.at(-1), [130, 3, 'c'], 'after a while without, at once again')
})

t.test('the next one only once the one before was taken', async (t) => {
  const { clock, sent, updates } = stage(() => ({ text: 'x' }))
  updates.request()
  clock.advance(0)
  updates.request()
  clock.advance(1000)
  t.equal(sent.length, 1)
  updates.taken(7)
  clock.advance(0)
  t.equal(sent.length, 1, 'that was another one')
  updates.taken(1)
  clock.advance(0)
  t.strictSame(sent.at(-1), [1000, 2, 'x'])
  updates.taken(2)
  clock.advance(1000)
  t.equal(sent.length, 2, 'nothing was asked for')
})

t.test('the rest follows by itself; where nothing differs, nothing is sent', async (t) => {
  const { clock, sent, updates } = stage((seq) => (seq < 3 ? { text: `${seq}`, isPart: seq === 1 } : undefined))
  updates.request()
  clock.advance(0)
  updates.taken(1)
  clock.advance(50)
  t.equal(sent.length, 2)
  updates.taken(2)
  updates.request()
  clock.advance(1000)
  t.equal(sent.length, 2)
  updates.request()
  updates.close()
  t.equal(clock.pending, 0)
})

t.test('a clock that is set back makes no pause longer', async (t) => {
  const clock = new ManualClock()
  const { sent, updates } = stage(() => ({ text: 'x' }), { clock })
  updates.request()
  clock.advance(0)
  updates.taken(1)
  clock.putBack(3_600_000)
  updates.request()
  clock.advance(50)
  t.equal(sent.length, 2)
})
