import { globSync, readFileSync } from 'node:fs'
import { join } from 'node:path'
import t from 'tap'
import { codeLines, commentsIn, passagesOf, prepositionsIn, proseCounts, sentencesOf } from '../../dev/census/prose.ts'

/** How far comments and pages are from plain sentences: these figures may only fall. */
const most = {
  src: { begins: 0, pronouns: 0, long: 0, cells: 0 },
  doc: { begins: 15, pronouns: 3, long: 1, cells: 211 },
  prepositions: 166,
}

const root = join(import.meta.dirname, '../..')
const read = (pattern: string) =>
  globSync(pattern, { cwd: root, exclude: ['src/proto/gen/**'] }).map((file) => readFileSync(join(root, file), 'utf8'))

t.test('comments of src are no harder to read than before', async (t) => {
  const counts = proseCounts(read('src/**/*.ts'), [])
  for (const [name, bound] of Object.entries(most.src))
    t.ok(counts[name as 'long'] <= bound, `${name}: ${counts[name as 'long']}`)
})

t.test('pages are no harder to read than before', async (t) => {
  const counts = proseCounts([], [...read('doc/**/*.md'), ...read('README.md')])
  for (const [name, bound] of Object.entries(most.doc))
    t.ok(counts[name as 'long'] <= bound, `${name}: ${counts[name as 'long']}`)
})

t.test('no more functions begin with a preposition than before', async (t) => {
  const names = read('src/**/*.ts').flatMap(prepositionsIn)
  t.ok(names.length <= most.prepositions, `${names.length}: ${names.join(' ')}`)
})

const source = `/** Reads a file. Of all that it has, nothing is lost. */
export function ofFile(): void {
  const url = 'https://kas' // what he asks
}

// Who reads it
// is named here.
const inMemory = async (x: number): Promise<void> => undefined

/**
 * One.
 *
 * @param x - whose it is
 */
const plain = 1 // biome-ignore lint: generated
`

t.test('comments are found where they stand, with what follows them', async (t) => {
  t.strictSame(commentsIn(source), [
    { line: 1, text: 'Reads a file. Of all that it has, nothing is lost.' },
    { line: 3, text: 'what he asks' },
    { line: 6, text: 'Who reads it\nis named here.' },
    { line: 10, text: 'One.\n\n@param x - whose it is' },
  ])
  t.equal(codeLines(source), 5)
  t.strictSame(prepositionsIn(source), ['ofFile', 'inMemory'])
})

t.test('sentences end at their points, at paragraphs and at tags', async (t) => {
  t.strictSame(sentencesOf('Reads `a. B`. Writes it.\n\nThen\nends @param x - the file\n@throws KasError X'), [
    'Reads X.',
    'Writes it.',
    'Then ends',
    'the file',
    'KasError X',
  ])
})

t.test('of a page, code is left out, and cells of tables stand apart', async (t) => {
  const page = '# Head\n\nOne\nline.\n- an item\n- whose item\n\n```sh\nwho am i\n```\n| a | b \\| c |\n|---|---|\n'
  t.strictSame(passagesOf(page), {
    prose: [
      { line: 1, text: 'Head' },
      { line: 3, text: 'One\nline.' },
      { line: 5, text: 'an item' },
      { line: 6, text: 'whose item' },
    ],
    cells: [
      { line: 11, text: 'a' },
      { line: 11, text: 'b \\| c' },
    ],
  })
})

t.test('each rule is counted', async (t) => {
  const long = Array.from({ length: 31 }, () => 'word').join(' ')
  const page = `What has left it is gone. What is it?\n\nHe asks. ${long}.\n\n| ${'x'.repeat(161)} | his |\n`
  t.strictSame(proseCounts([], [page]), { begins: 1, pronouns: 2, long: 1, cells: 1 })
  t.strictSame(proseCounts([source], []), { begins: 2, pronouns: 1, long: 0, cells: 0 })
})
