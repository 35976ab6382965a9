import t from 'tap'
import { KnownAddresses, maxAddresses } from '../../../../src/membership/discovery/known-addresses.ts'
import { capturedLog } from '../../../support/captured-log.ts'

const begin = () => {
  const { log, lines } = capturedLog()
  const known = new KnownAddresses({ log })
  const changes: unknown[] = []
  known.onChange(() => changes.push(known.current()))
  return { known, changes, lines }
}

t.test('only a change is reported', async (t) => {
  const { known, changes } = begin()
  known.answered(['b', 'a', 'b'])
  known.answered(['a', 'b'])
  t.strictSame(changes, [{ addresses: ['a', 'b'], stale: false, answered: true }])
  known.failed('away')
  known.failed('away')
  known.failed('gone')
  known.answered(['a', 'b'])
  t.strictSame(changes.slice(1), [
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

t.test('the first answer is reported though it is empty', async (t) => {
  const { known, changes } = begin()
  known.answered([])
  t.strictSame(changes, [{ addresses: [], stale: false, answered: true }])
})

t.test('too many addresses are cut, reported once', async (t) => {
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

t.test('who does not listen any more is not called', async (t) => {
  const { known, changes } = begin()
  const off = known.onChange(() => t.fail('called'))
  off()
  off()
  known.forgetListeners()
  known.answered(['a'])
  t.strictSame(changes, [])
})
