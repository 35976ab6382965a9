import t from 'tap'
import { roughBytes } from '../../../../../src/kas/directory/gitlab/rough-bytes.ts'

t.test('what is larger counts as more, however deep it is', async (t) => {
  const sizes = [1n, 'a'.repeat(10), { a: 'b'.repeat(10) }, [{ id: 1n, groups: ['c'.repeat(20)] }, null]].map(
    roughBytes,
  )
  t.strictSame(
    sizes,
    sizes.toSorted((a, b) => a - b),
  )
  t.equal(new Set(sizes).size, sizes.length)
  t.ok(roughBytes('a'.repeat(1000)) >= 2000)
  t.ok(roughBytes(JSON.parse(`${'['.repeat(50_000)}${']'.repeat(50_000)}`)) > 50_000)
})
