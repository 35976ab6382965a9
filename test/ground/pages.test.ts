import { readFileSync } from 'node:fs'
import { join } from 'node:path'
import t from 'tap'
import { firstWords, rowsOf } from '../support/views/first-words.ts'

/** Tables of doc/ that rest on tests agree with these tests. */

const root = join(import.meta.dirname, '../..')
const read = (file: string) => readFileSync(join(root, file), 'utf8')
const rowsIn = (text: string) => text.match(/^\| .*\n/gm)?.slice(1) ?? []

t.test('what one types first', async (t) => {
  const lines = rowsOf(firstWords).match(/.*\n/g) ?? []
  t.ok(lines.length > 40)
  t.strictSame(rowsIn(read('doc/reference/first-words.md')), lines)
})

t.test(
  'README: what kas is, how to try it and install it stand in 60 lines, before four groups of pages',
  async (t) => {
    const head = /^(?:## (.*)|\| (\w+): .* \| \|)$/
    const heads = read('README.md')
      .split('\n')
      .flatMap((line, i) => {
        const [, title, group] = head.exec(line) ?? []
        return title || group ? [{ title: title ?? group, line: i + 1 }] : []
      })
      .slice(0, 7)
    t.strictSame(
      heads.map(({ title }) => title),
      ['Try it', 'Install', 'Read on', 'Guides', 'Reference', 'Operate', 'Internals'],
    )
    t.ok((heads[2]?.line ?? Infinity) <= 60)
  },
)

/** patterns of titles in a test file: a test, and a row of a table of cases */
const titled = [/\bt\.test\(\s*(['"])(.*?)\1,/g, /^ {2}(['"])(.*?)\1: /gm, /\[\s*(['"])(.*?)\1,/g]

/** least number of rows of a page's table of bad input */
const badInput = {
  'reference/health.md': 13,
  'reference/access-log.md': 15,
  'operate/client-address.md': 6,
  'reference/directory.md': 12,
  'guide/install.md': 14,
}

t.test('each bad input has its test', async (t) => {
  for (const [page, least] of Object.entries(badInput)) {
    const [, part = ''] = read(`doc/${page}`).split('\n## Bad input\n')
    const [section = ''] = part.split('\n## ')
    const rows = rowsIn(section)
    t.ok(rows.length >= least, `${page}: ${rows.length} rows`)
    for (const row of rows) {
      const named = [...row.matchAll(/`(test\/[^`]+)`: ([^|<]+?)(?=<br>| \|)/g)]
      t.ok(named.length > 0, row)
      for (const [, file = '', title = ''] of named) {
        const titles = titled.flatMap((pattern) => [...read(file).matchAll(pattern)].map(([, , each]) => each))
        t.ok(titles.includes(title), `${file}: ${title}`)
      }
    }
  }
})
