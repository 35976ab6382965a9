import t from 'tap'
import { namedByConnection } from '../../../../src/proto/http/hop-by-hop.ts'

t.test('what is for this hop only', async (t) => {
  t.equal(namedByConnection(['keep-alive', 'Close', 'Upgrade']), undefined)
  t.same(namedByConnection(['close, x-a', 'X-b']), new Set(['Close', 'X-A', 'X-B']))
})

t.test('a thousand names are read, of all headers together', async (t) => {
  const names = (from: number, count: number) => Array.from({ length: count }, (_, i) => `x-${from + i}`).join(',')
  t.equal(namedByConnection([names(0, 600), names(600, 600)])?.size, 1000)
  t.equal(namedByConnection([names(0, 100_000), 'x-late'])?.size, 1000)
})
