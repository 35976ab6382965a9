import t from 'tap'
import { KeyedListeners, Listeners } from '../../../src/lib/listeners.ts'
import { Seeded } from '../../support/seeded.ts'

t.test('each is called, in the order in which they came, until it is removed; one may be added twice', (t) => {
  const listeners = new Listeners<string>()
  const called: string[] = []
  const both = (value: string) => called.push(`both ${value}`)
  const remove = listeners.add(both)
  listeners.add(both)
  listeners.add((value) => called.push(`last ${value}`))
  listeners.notify('a')
  remove()
  remove()
  listeners.notify('b')
  t.strictSame(called, ['both a', 'both a', 'last a', 'both b', 'last b'])
  listeners.clear()
  listeners.notify('c')
  t.equal(called.length, 5)
  t.equal(listeners.size, 0)
  t.end()
})

t.test('one that throws keeps no other from being called, and nothing that it throws is lost', (t) => {
  const errors: unknown[] = []
  const called: number[] = []
  const add = (listeners: Listeners) => {
    for (const i of [1, 2, 3])
      listeners.add(() => {
        called.push(i)
        if (i < 3) throw new Error(`listener ${i}`)
      })
  }
  const reporting = new Listeners((error) => errors.push(error))
  add(reporting)
  reporting.notify()
  t.match(errors, [{ message: 'listener 1' }, { message: 'listener 2' }])
  const throwing = new Listeners()
  add(throwing)
  t.throws(() => throwing.notify(), { errors: [{ message: 'listener 1' }, { message: 'listener 2' }] })
  t.strictSame(called, [1, 2, 3, 1, 2, 3])
  const one = new Listeners()
  one.add(() => {
    throw new Error('own')
  })
  t.throws(() => one.notify(), { message: 'own' })
  t.end()
})

t.test('of a key without listeners nothing is kept', (t) => {
  const listeners = new KeyedListeners<string, number>()
  const called: string[] = []
  const removeA = listeners.add('a', (value) => called.push(`a${value}`))
  listeners.add('b', (value) => called.push(`b${value}`))
  listeners.notify('a', 1)
  listeners.notify('c', 1)
  listeners.notifyAll(2)
  removeA()
  removeA()
  const again = listeners.add('a', (value) => called.push(`again${value}`))
  removeA() // these listeners are removed already; the new one stays
  listeners.notify('a', 3)
  again()
  t.strictSame(called, ['a1', 'a2', 'b2', 'again3'])
  t.strictSame(listeners.keys(), ['b'])
  listeners.add('0', () => {
    throw new Error('own')
  })
  listeners.add('d', (value) => called.push(`d${value}`))
  t.throws(() => listeners.notifyAll(4), { message: 'own' })
  t.strictSame(called.slice(-2), ['b4', 'd4'])
  t.end()
})

/** Actions of a listener when it is called. */
interface Act {
  readonly adds: boolean
  readonly removes: number | undefined
  readonly notifies: boolean
}

t.test(
  'whatever they add, remove and notify while they are called: none is lost, none is called twice or after its end',
  (t) => {
    const seeded = Seeded.for(t)
    for (let round = 0; round < 1000; round++) {
      const listeners = new Listeners<number>()
      /** functions that remove a listener, by its number; undefined: it is removed */
      const removals: ((() => void) | undefined)[] = []
      const called: string[] = []
      let depth = 0
      const add = () => {
        const own = removals.length
        const act: Act = {
          adds: seeded.chance(0.2),
          removes: seeded.chance(0.3) ? seeded.int(own + 3) : undefined,
          notifies: seeded.chance(0.1),
        }
        removals.push(
          listeners.add((value) => {
            called.push(`${value} ${own}`)
            if (!removals[own]) called.push(`${own} after its end`)
            if (act.adds && removals.length < 30) add()
            if (act.removes !== undefined) remove(act.removes)
            if (act.notifies && depth < 2) notify()
          }),
        )
      }
      const remove = (which: number) => {
        removals[which]?.()
        if (which in removals) removals[which] = undefined
      }
      let value = 0
      const notify = () => {
        const own = value++
        const before = removals.flatMap((one, i) => (one ? [i] : []))
        depth++
        listeners.notify(own)
        depth--
        const got = called.filter((one) => one.startsWith(`${own} `)).map((one) => Number(one.split(' ')[1]))
        const unexpected = got.filter((one) => !before.includes(one))
        const lost = before.filter((one) => removals[one] && !got.includes(one))
        if (unexpected.length > 0 || lost.length > 0 || new Set(got).size < got.length)
          t.fail(`round ${round}`, { got, before, unexpected, lost })
      }
      for (let i = seeded.int(8); i >= 0; i--) add()
      for (let i = 0; i < 4; i++) notify()
      const late = called.filter((one) => one.endsWith('end'))
      for (const one of removals) one?.()
      if (late.length > 0 || listeners.size > 0) t.fail(`round ${round}`, { late, kept: listeners.size })
    }
    t.pass('1000 rounds')
    t.end()
  },
)
