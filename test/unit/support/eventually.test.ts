import t from 'tap'
import { eventually } from '../../support/eventually.ts'

t.test('repeats the check until it neither throws nor says false', async (t) => {
  const answers = [
    () => false as const,
    () => {
      throw new Error('not yet')
    },
    () => 'so',
  ]
  t.equal(await eventually(() => (answers.shift() as () => string | false)()), 'so')
  t.equal(await eventually(() => undefined), undefined, 'what only throws is not so')
})

t.test('throws the last failure once the time is over', async (t) => {
  let tries = 0
  const check = () => {
    throw new Error(`try ${++tries}`)
  }
  await t.rejects(eventually(check, { timeoutMs: 30 }), { message: /^try ([2-9]|\d\d+)$/ })
  await t.rejects(
    eventually(() => tries < 0, { timeoutMs: 1 }),
    { message: 'it never held: () => tries < 0' },
  )
})

t.test('is told when to try again, by what changes', async (t) => {
  const listeners = new Set<() => void>()
  let tries = 0
  let value = 0
  const set = (to: number) => {
    value = to
    for (const listener of listeners) listener()
  }
  const onChange = (listener: () => void) => {
    listeners.add(listener)
    return () => void listeners.delete(listener)
  }
  const check = () => {
    tries += 1
    if (tries === 1) set(1) // during the check
    return value === 2 && value
  }
  const found = eventually(check, { onChange })
  for (let turn = 0; turn < 5; turn++) await new Promise(setImmediate)
  t.equal(tries, 2, 'at first, and once it was told')
  set(2)
  t.equal(await found, 2)
  t.equal(tries, 3)
  t.equal(listeners.size, 0)
})
