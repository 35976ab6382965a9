import { readFileSync } from 'node:fs'
import { join } from 'node:path'
import t from 'tap'
import { holds, markersIn, readMarkers } from '../../dev/wire/markers.ts'
import { notHeld, notThere } from '../../dev/wire/missing-rows.ts'
import { wireTable } from '../../dev/wire/table.ts'
import { wireSections } from '../../dev/wire/wire-sections.ts'

/** doc/reference/wire.md is true: each row has a test, and each test has a row. */

const root = join(import.meta.dirname, '../..')
const rows = wireSections(root).flatMap((section) => section.rows)
const markers = readMarkers(root)

t.test('no row stands twice', async (t) => {
  const ids = [...rows, ...notHeld, ...notThere].map(({ id }) => id)
  t.strictSame(
    ids.filter((id, i) => ids.indexOf(id) !== i),
    [],
  )
  t.ok(rows.length > 300)
})

t.test('every row has a test', async (t) => {
  const without = rows.filter(({ id }) => !markers.some((marker) => holds(marker, id)))
  t.strictSame(
    without.map(({ id }) => id),
    [],
  )
})

t.test('every marker names rows', async (t) => {
  const odd = markers.flatMap((marker) =>
    marker.ids
      .filter((id) => !rows.some((row) => holds({ ...marker, ids: [id] }, row.id)))
      .map((id) => [marker.file, id]),
  )
  t.strictSame(odd, [])
})

t.test('the table is current (npm run wire)', async (t) => {
  t.equal(readFileSync(join(root, 'doc/reference/wire.md'), 'utf8'), wireTable(root))
})

t.test('a marker stands for the first test below it, in a loop too', async (t) => {
  const marked = (...lines: string[]) => markersIn('f', lines.join('\n')).map(({ ids, test }) => [...ids, test])
  t.strictSame(marked('// wire: a, b.*', "t.test('one', async (t) => {", '})'), [['a', 'b.*', 'one']])
  t.strictSame(marked('// wire: a', '// wire: b', 't.test(', "  'one',", ')'), [
    ['a', 'one'],
    ['b', 'one'],
  ])
  const loop = ['// wire: a', 'for (const x of y({', '})) {', '  t.test(`a test`, async (t) => {', '  })', '}']
  t.strictSame(marked(...loop), [['a', 'a test']])
  t.strictSame(marked('// wire: a', 'for (const x of y) {', '  t.ok(x)', '}', "t.test('other', fn)"), [['a', '']])
})
