import { readFileSync } from 'node:fs'
import { join } from 'node:path'
import t from 'tap'
import { firstWords, rowsOf } from '../support/views/first-words.ts'

/** Tables of doc/ that stand on tests are what the tests say. */

const root = join(import.meta.dirname, '../..')
const read = (file: string) => readFileSync(join(root, file), 'utf8')
const rowsIn = (text: string) => text.match(/^\| .*\n/gm)?.slice(1) ?? []

t.test('what one types first', async (t) => {
  const lines = rowsOf(firstWords).match(/.*\n/g) ?? []
  t.ok(lines.length > 40)
  t.strictSame(rowsIn(read('doc/first-words.md')), lines)
})

t.test('each bad input has its test', async (t) => {
  const [, part = ''] = read('doc/health.md').split('\n## Bad input\n')
  const [section = ''] = part.split('\n## ')
  const rows = rowsIn(section)
  t.ok(rows.length >= 13)
  for (const row of rows) {
    const named = [...row.matchAll(/`(test\/[^`]+)`: ([^|<]+?)(?=<br>| \|)/g)]
    t.ok(named.length > 0, row)
    for (const [, file = '', title = ''] of named) t.ok(read(file).includes(`t.test('${title}'`), `${file}: ${title}`)
  }
})
