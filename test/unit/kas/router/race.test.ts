import t from 'tap'
import type { Offer } from '../../../../src/call/offer.ts'
import { Race } from '../../../../src/kas/router/race.ts'
import { createHedges, hedgesPerCall } from '../../../../src/kas/router/tunnel-search.ts'
import type { Cancellation } from '../../../../src/lib/signals.ts'

function offer(): Offer & { back: number } {
  const made = {
    back: 0,
    forward: () => {
      throw new Error('not used here')
    },
    giveBack: () => void made.back++,
  }
  return made
}

const never = () => t.fail('nothing is told to one that lost')

t.test('the first offer wins; the others are called off, and what they bring all the same goes back', async (t) => {
  const race = new Race()
  const late = Promise.withResolvers<Offer>()
  const cancellations: Cancellation[] = []
  const ask = (cancellation: Cancellation) => {
    cancellations.push(cancellation)
    return late.promise
  }
  race.enter({}, ask, never)
  const first = offer()
  race.enter({}, async () => first, never)
  t.equal(await race.winner, first)
  t.ok(cancellations[0]?.isCancelled)
  const second = offer()
  late.resolve(second)
  await late.promise
  await Promise.resolve()
  t.equal(second.back, 1)
  t.equal(first.back, 0)
  race.enter({}, () => Promise.reject(new Error('a race that is over asks nobody')), never)
})

t.test('one that has nothing is told; the race ends when its owner says so', async (t) => {
  const race = new Race()
  const way = {}
  await new Promise<void>((resolve) => race.enter(way, async () => 'none', resolve))
  t.notOk(race.has(way))
  t.equal(race.size, 0)
  race.close()
  t.equal(await race.winner, undefined)
})

t.test('a way that is dropped brings nothing any more', async (t) => {
  const race = new Race()
  const way = {}
  const { promise, resolve } = Promise.withResolvers<Offer>()
  race.enter(way, () => promise, never)
  race.drop(way)
  t.notOk(race.has(way))
  const given = offer()
  resolve(given)
  await promise
  await Promise.resolve()
  t.equal(given.back, 1)
  race.fail(new Error('the caller left'))
  await t.rejects(race.winner, { message: 'the caller left' })
})

t.test('an error of a way is the error of the race, unless it was dropped', async (t) => {
  const race = new Race()
  const way = {}
  race.enter(way, () => Promise.reject(new Error('dropped')), never)
  race.drop(way)
  race.enter({}, () => Promise.reject(new Error('full')), never)
  await t.rejects(race.winner, { message: 'full' })
})

t.test('hedges are at most a burst, and then one for twenty calls', async (t) => {
  const budget = createHedges()
  let spent = 0
  while (budget.takeIfThere(1)) spent++
  t.equal(spent, 50)
  let hedges = 0
  for (let call = 0; call < 1000; call++) {
    budget.give(hedgesPerCall)
    if (budget.takeIfThere(1)) hedges++
  }
  t.ok(hedges >= 49 && hedges <= 50, `${hedges} of 1000`)
})
