import t from 'tap'
import {
  LengthBoundaries,
  LineBoundaries,
  WatchFrames,
} from '../../../../../../../src/kas/servers/kubernetes/watch/resume/watch-frames.ts'
import { ByteBudget } from '../../../../../../../src/lib/byte-budget.ts'
import { Seeded } from '../../../../../../support/seeded.ts'

const framed = (body: Buffer) => {
  const head = Buffer.alloc(4)
  head.writeUInt32BE(body.length)
  return Buffer.concat([head, body])
}

const kinds = {
  lines: { boundaries: () => new LineBoundaries(), event: (text: string) => Buffer.from(`${text}\n`) },
  lengths: { boundaries: () => new LengthBoundaries(), event: (text: string) => framed(Buffer.from(text)) },
}

for (const [name, { boundaries, event }] of Object.entries(kinds)) {
  t.test(`${name}: events pass whole, in order, however they are cut, without those that do not pass`, async (t) => {
    const random = new Seeded(7)
    for (let round = 0; round < 200; round++) {
      const events = Array.from({ length: 12 }, (_, i) =>
        event(`${i % 3 ? 'keep' : 'drop'}-${i}-${'x'.repeat(random.int(300))}`),
      )
      const all = Buffer.concat(events)
      const kept = new ByteBudget(10_000)
      const frames = new WatchFrames(boundaries(), kept)
      const seen: string[] = []
      const passed: Uint8Array[] = []
      for (let at = 0; at < all.length; ) {
        const to = at + 1 + random.int(random.int(2) ? 5 : 700)
        passed.push(
          ...frames.push(all.subarray(at, to), (whole) => {
            seen.push(Buffer.from(whole).toString('latin1'))
            return !Buffer.from(whole).includes('drop')
          }),
        )
        at = to
      }
      const same = Buffer.concat(passed).equals(Buffer.concat(events.filter((one) => !one.includes('drop'))))
      if (!same || seen.join() !== events.map((one) => one.toString('latin1')).join()) return t.fail(`round ${round}`)
      if (frames.take().length !== 0) return t.fail('something is left')
      kept.take(10_000) // throws if a frame did not return all its bytes
    }
    return t.pass('200 rounds')
  })

  t.test(`${name}: what is too long to be kept passes as it comes; behind it all is as before`, async (t) => {
    const kept = new ByteBudget(2000)
    const frames = new WatchFrames(boundaries(), kept)
    const [first, long, drop, last] = [event('first'), event('y'.repeat(3000)), event('drop'), event('last')]
    const all = Buffer.concat([first, long, drop, last])
    const passed: Uint8Array[] = []
    const seen: string[] = []
    let passing = 0
    for (let at = 0; at < all.length; at += 500) {
      const look = (whole: Uint8Array) => {
        seen.push(String(Buffer.from(whole)))
        return !Buffer.from(whole).equals(drop)
      }
      passed.push(...frames.push(all.subarray(at, at + 500), look))
      if (frames.isPassing) passing++
    }
    t.ok(passing > 0)
    t.equal(frames.isPassing, false)
    t.ok(Buffer.concat(passed).equals(Buffer.concat([first, long, last])))
    t.same(seen, [first, drop, last].map(String))
    kept.take(2000)
  })
}
