import t from 'tap'
import { type Finding, finding, ranks } from '../../../../../src/agentk/health/kas/finding.ts'
import { type Onset, remember, sinceBy } from '../../../../../src/agentk/health/kas/onset.ts'

/** One judgement in a series about one object; `undefined`: nothing is found. */
type Look = readonly [second: number, found: Finding | undefined]

const found = (reason: string, since?: number) =>
  finding('Degraded', {
    reason,
    text: reason,
    rank: ranks.other,
    since: since === undefined ? undefined : since * 1000,
  })

function after(looks: readonly Look[], isLive = true): Onset | undefined {
  let sight: Onset | undefined
  for (const [second, one] of looks) sight = remember(sight, one, { now: second * 1000, isLive })
  return sight
}
const since = (looks: readonly Look[], isLive = true, explained?: number) => {
  const sight = after(looks, isLive)
  return sight && sinceBy(sight, explained)
}

t.test('the time that is verdicts, whenever it was seen', async (t) => {
  t.same(since([[100, found('A', 40)]]), { since: 40_000 })
  t.same(since([[100, found('A', 40)]], false), { since: 40_000 })
})

t.test('without one: when it was seen to begin, else of what it explains, else at least', async (t) => {
  const looks: Look[] = [
    [100, found('A')],
    [200, found('A')],
  ]
  t.same(since(looks), { since: 100_000 })
  t.same(since(looks, true, 50_000), { since: 100_000 })
  t.same(since(looks, false, 50_000), { since: 50_000 })
  t.same(since(looks, false), { atLeast: 100_000 })
})

t.test('a family goes on, another begins anew', async (t) => {
  t.same(
    since([
      [100, found('CrashLoopBackOff')],
      [200, found('OOMKilled')],
    ]),
    { since: 100_000 },
  )
  t.same(
    since([
      [100, found('OOMKilled', 90)],
      [200, found('CrashLoopBackOff', 190)],
    ]),
    { since: 90_000 },
  )
  t.same(
    since([
      [100, found('OOMKilled')],
      [200, found('ImageNotFound')],
    ]),
    { since: 200_000 },
  )
})

t.test('well for less than a minute: the old since goes on', async (t) => {
  t.same(
    since([
      [100, found('A')],
      [200, undefined],
      [259, found('A')],
    ]),
    { since: 100_000 },
  )
  t.same(
    since([
      [100, found('A')],
      [200, undefined],
      [230, undefined],
      [260, found('A')],
    ]),
    { since: 260_000 },
  )
  t.same(
    since([
      [100, found('A', 90)],
      [200, undefined],
      [259, found('A', 259)],
    ]),
    { since: 90_000 },
  )
  t.equal(
    after([
      [100, found('A')],
      [200, undefined],
      [260, undefined],
    ]),
    undefined,
  )
  t.equal(after([[100, undefined]]), undefined)
})

t.test('at least since the cluster tells of it, unless it was seen to begin earlier', async (t) => {
  const told = { ...found('CrashLoopBackOff'), seen: 80_000 }
  const fresh = remember(undefined, told, { now: 100_000, isLive: false })
  t.same(fresh && sinceBy(fresh), { atLeast: 80_000 })
  const before = remember(undefined, found('CrashLoopBackOff', 70), { now: 90_000, isLive: true })
  const known = remember(before, told, { now: 100_000, isLive: true })
  t.same(known && sinceBy(known), { since: 70_000 }, 'what was known stays')
  const later = remember(fresh, { ...told, seen: 60_000 }, { now: 110_000, isLive: true })
  t.same(later && sinceBy(later), { atLeast: 60_000 }, 'what comes to be known later counts')
})
