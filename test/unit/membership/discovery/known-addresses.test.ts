import t from 'tap'
import { KnownAddresses, maxAddresses } from '../../../../src/membership/discovery/known-addresses.ts'
import { capturedLog } from '../../../support/captured-log.ts'

const begin = () => {
  const { log, lines } = capturedLog()
  const known = new KnownAddresses({ log })
  const told: unknown[] = []
  known.onChange(() => told.push(known.current()))
  return { known, told, lines }
}

t.test('only a change is told', async (t) => {
  const { known, told } = begin()
  known.answered(['b', 'a', 'b'])
  known.answered(['a', 'b'])
  t.strictSame(told, [{ addresses: ['a', 'b'], stale: false, answered: true }])
  known.failed('away')
  known.failed('away')
  known.failed('gone')
  known.answered(['a', 'b'])
  t.strictSame(told.slice(1), [
    { addresses: ['a', 'b'], stale: true, answered: true, error: 'away' },
    { addresses: ['a', 'b'], stale: true, answered: true, error: 'gone' },
    { addresses: ['a', 'b'], stale: false, answered: true },
  ])
})

t.test('a failure before any answer is not stale, for there is nothing to be stale', async (t) => {
  const { known } = begin()
  known.failed('away')
  t.strictSame(known.current(), { addresses: [], stale: false, answered: false, error: 'away' })
})

t.test('the first answer is told though it is empty', async (t) => {
  const { known, told } = begin()
  known.answered([])
  t.strictSame(told, [{ addresses: [], stale: false, answered: true }])
})

t.test('too many addresses are cut, told once', async (t) => {
  const { known, lines } = begin()
  const many = Array.from({ length: maxAddresses + 5 }, (_, i) => `host-${String(i).padStart(5, '0')}:1`)
  known.answered(many)
  known.answered([...many, 'z:1'])
  t.strictSame(known.current().addresses, many.slice(0, maxAddresses))
  t.strictSame(
    lines.map(({ found, limit }) => [found, limit]),
    [[maxAddresses + 5, maxAddresses]],
  )
})

t.test('a long error is cut', async (t) => {
  const { known } = begin()
  known.failed('x'.repeat(10_000))
  t.equal(known.current().error?.length, 500)
})

t.test('who does not listen any more is not told', async (t) => {
  const { known, told } = begin()
  const off = known.onChange(() => t.fail('told'))
  off()
  off()
  known.forgetListeners()
  known.answered(['a'])
  t.strictSame(told, [])
})
