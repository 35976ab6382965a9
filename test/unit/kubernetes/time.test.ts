import t from 'tap'
import { createdOf, exactTimeOf, rfc3339Time, timeOf } from '../../../src/kubernetes/time.ts'

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

t.test('a time of RFC 3339, and nothing else', async (t) => {
  const noon = Date.parse('2026-01-02T12:00:00Z')
  const same = ['2026-01-02T12:00:00Z', '2026-01-02t12:00:00z', '2026-01-02T13:30:00+01:30', '2026-01-02T12:00:00.000Z']
  for (const text of same) t.equal(rfc3339Time(text), noon, text)
  t.equal(rfc3339Time('2026-01-02T12:00:00.123456789Z'), noon + 123)
  t.equal(rfc3339Time('1970-01-01T00:00:00Z'), 0)
  t.equal(rfc3339Time('2024-02-29T00:00:00Z'), Date.parse('2024-02-29'))
  const others = [
    ...[
      undefined,
      null,
      0,
      {},
      '',
      'now',
      '2026-01-02',
      '2026-01-02T12:00Z',
      '2026-01-02T12:00:00',
      '20260102T120000Z',
    ],
    ...['2026-02-30T00:00:00Z', '2023-02-29T00:00:00Z', '2026-13-01T00:00:00Z', '2026-01-02T24:00:00Z'],
    ...['2026-01-02T12:60:00Z', '2026-01-02T12:00:00+1:00', ' 2026-01-02T12:00:00Z', '2026-01-02T12:00:00Z\n'],
    `2026-01-02T12:00:00.${'0'.repeat(64)}Z`,
  ]
  for (const text of others) t.equal(rfc3339Time(text), undefined, JSON.stringify(text))
})
