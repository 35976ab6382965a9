import t from 'tap'
import { BodyPace } from '../../../../../../src/kas/servers/kubernetes/http/body-pace.ts'
import { ManualClock } from '../../../../../support/manual-clock.ts'

const options = { perSecond: 4096, overMs: 5000 }

/** Starts a body that passes on its pieces one by one. */
function start() {
  const clock = new ManualClock()
  const pace = new BodyPace(clock, options)
  let size = 0
  const pieces = pace.count(
    (async function* () {
      for (;;) yield Buffer.alloc(size)
    })(),
  )
  const send = async (bytes: number) => {
    size = bytes
    await pieces.next()
  }
  return { clock, pace, send }
}

t.test('a body that sends nothing is slow after its time, not before it has begun', async (t) => {
  const { clock, pace } = start()
  clock.advance(60_000)
  t.equal(pace.isSlow, false)
  pace.begin()
  clock.advance(4999)
  t.equal(pace.isSlow, false)
  clock.advance(1)
  t.equal(pace.isSlow, true)
})

t.test('at the least rate it is never slow, below it soon', async (t) => {
  for (const [bytes, isSlow] of [
    [4096, false],
    [200, true],
    [1, true],
  ] as const) {
    const { clock, pace, send } = start()
    pace.begin()
    for (let second = 0; second < 20; second++) {
      clock.advance(1000)
      await send(bytes)
    }
    t.equal(pace.isSlow, isSlow, `${bytes} bytes a second`)
  }
})

t.test('a fast beginning buys no longer pause', async (t) => {
  const { clock, pace, send } = start()
  pace.begin()
  await send(20 * 1024 * 1024)
  clock.advance(5000)
  t.equal(pace.isSlow, true)
})
