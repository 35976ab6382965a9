import { globSync, mkdirSync, readFileSync, writeFileSync } from 'node:fs'
import { dirname, join } from 'node:path'
import t from 'tap'
import { notHeld, notThere } from '../../dev/wire/missing-rows.ts'
import { wireSections } from '../../dev/wire/wire-sections.ts'
import { designCitations, unresolved } from './citations.ts'

/** Sources that the code follows are in the repository: every citation leads to a page, a section or a row. */

const root = join(import.meta.dirname, '../..')
const texts = '**/*.{ts,js,mjs,go,rb,proto,json,yaml,yml,md,txt,conf,sh}'
const files = ['src', 'test', 'bench', 'dev', 'doc', 'deploy', 'bin']
  .flatMap((folder) => globSync(`${folder}/${texts}`, { cwd: root }))
  .concat('README.md', 'CHANGELOG.md', 'biome.json')
  .filter((file) => file !== 'test/ground/references.test.ts') // contains citations that lead nowhere
  .sort()

t.test('every citation resolves', async (t) => {
  t.ok(files.length > 800, 'they are looked for')
  t.strictSame(unresolved(root, files), [])
})

t.test('nothing follows a design that is not in the repository', async (t) => {
  t.strictSame(designCitations(root, files), [])
})

t.test('every row of the wire says where it comes from', async (t) => {
  const rows = [...wireSections(root).flatMap((section) => section.rows), ...notHeld, ...notThere]
  const without = rows.filter(({ source }) => !/^[WG] \d[\d.]*(?: no\. \d+(?:(?:,| to) \d+)?)?(?:, |$)/.test(source))
  t.strictSame(without, [])
  const folder = tree(t.testdir(), { 'dev/wire/rows/all.txt': rows.map(({ source }) => `${source}\n`).join('') })
  t.strictSame(unresolved(folder, ['dev/wire/rows/all.txt']), [])
})

/** Writes files into a folder, together with the reference. */
function tree(folder: string, own: Readonly<Record<string, string>>): string {
  const reference = globSync('doc/reference/*.md', { cwd: root }).map((path) => [path, readFileSync(join(root, path))])
  for (const [path, text] of [...Object.entries(own), ...reference] as [string, string][]) {
    mkdirSync(dirname(join(folder, path)), { recursive: true })
    writeFileSync(join(folder, path), text)
  }
  return folder
}

const name = 'gitlab-contract'
const page = `doc/reference/${name}.md`

t.test('a citation of what is not there is found', async (t) => {
  const cited = {
    [`${page} 9.6`]: 'a section',
    [`${page} 9.1 no. 16`]: 'a row of another section',
    [`${page} 9.1 no. 3 and 99`]: 'the second row',
    [`${name} 9.1`]: 'a page without its path',
    [`${page} 2.2 no. 3`]: 'a number that the page leaves out',
    'doc/reference/tunnel-protocol.md 0.3.9': 'one beyond a list',
    'doc/reference/traps.md no. 39': 'a row of a page that counts through',
    'captured 5': 'a section that the page has not',
    'doc/reference/absent.md': 'a page',
    [`${page} "Nowhere"`]: 'a heading',
    'doc/decisions/0999': 'a decision',
    'decision 998': 'the same by its number',
  }
  for (const [text, what] of Object.entries(cited)) {
    const folder = tree(t.testdir(), { 'src/a.ts': `const a = 1\n/** Does it (${text}). */\n` })
    t.strictSame(unresolved(folder, ['src/a.ts']), [`src/a.ts:2: ${text}`], what)
  }
  const folder = tree(t.testdir(), {
    'src/a.ts': `/**\n * Does it (${page} 9.1 no.\n * 99).\n */\n// design 4\n`,
    'dev/wire/rows/a.txt': 'id | W 1.99, 2.1 | defined | G 9.1 no. 99\n',
    'doc/a.md': `See [it](reference/${name}.md) 77, [that](#there) and [another](b.md).\n`,
  })
  const planted = unresolved(folder, ['src/a.ts', 'dev/wire/rows/a.txt', 'doc/a.md'])
  t.strictSame(planted, [
    `src/a.ts:2: ${page} 9.1 no. 99`,
    'dev/wire/rows/a.txt:1: W 1.99, 2.1',
    'dev/wire/rows/a.txt:1: G 9.1 no. 99',
    `doc/a.md:1: ](reference/${name}.md) 77`,
    'doc/a.md:1: ](#there)',
    'doc/a.md:1: ](b.md)',
  ])
  t.strictSame(designCitations(folder, ['src/a.ts']), ['src/a.ts:5: design 4'])
})

t.test('a citation of what is there is not', async (t) => {
  const folder = tree(t.testdir(), {
    'src/a.ts': [
      `/** ${page} 9.1 no. 1 and 2, ${page} 9 no. 25, ${page} 2.2 no. 11 to 15, 9.4 no. 34. */`,
      '// doc/reference/tunnel-protocol.md 0.3.4, 1.20 and 4.1 no. 5; captured 3, captured.md 1',
      '// doc/reference/traps.md no. 57',
      `/**\n * Does it (${page} "9.4 Kubernetes\n * API proxy").\n */`,
    ].join('\n'),
    'doc/a.md': `See [it](reference/${name}.md) 9.5, [that](reference/${name}.md#22-endpoints).\n`,
  })
  t.strictSame(unresolved(folder, ['src/a.ts', 'doc/a.md']), [])
})
