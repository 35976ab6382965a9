import t from 'tap'
import { createdOf, exactTimeOf, timeOf } from '../../../src/kubernetes/time.ts'

const now = Date.parse('2026-01-02T00:00:00Z')

t.test('a time to come is now, but where it may well be to come', async (t) => {
  t.equal(timeOf('2026-01-01T00:00:00Z', now), now - 86_400_000)
  t.equal(timeOf('2026-01-03T00:00:00Z', now), now)
  t.equal(exactTimeOf('2026-01-03T00:00:00Z'), now + 86_400_000)
  t.equal(createdOf({ metadata: { creationTimestamp: '2026-01-01T00:00:00Z' } }, now), now - 86_400_000)
})

t.test('what says nothing is not known', async (t) => {
  for (const text of [
    undefined,
    null,
    1,
    '',
    'soon',
    '1970-01-01T00:00:00Z',
    `2026-01-01T00:00:00Z${' '.repeat(64)}`,
  ]) {
    t.equal(timeOf(text, now), undefined, String(text))
    t.equal(exactTimeOf(text), undefined, String(text))
  }
  t.equal(createdOf({}, now), undefined)
})
