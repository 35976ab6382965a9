import t from 'tap'
import { readFiles } from '../../../../../../src/agentk/modules/gitops/manifests/read-yaml.ts'
import { roundBudget } from '../../../../../../src/agentk/modules/gitops/manifests/round-budget.ts'

/** Lines in brackets and quotes that are indented no deeper than the lines around them: kubectl reads them. */

const read = (text: string) => {
  const { documents, problems } = readFiles([{ path: 'a.yaml', data: Buffer.from(text) }])
  return problems.length > 0 ? problems : documents.map(({ object }) => object)
}

t.test('brackets', async (t) => {
  t.strictSame(read('args: [\n"a",\n"b"\n]\nb: 1\n'), [{ args: ['a', 'b'], b: 1 }])
  t.strictSame(read('a:\n  args: [\n"a",\n  # why\n\n  "b"\n]\nb: 1\n'), [{ a: { args: ['a', 'b'] }, b: 1 }])
  t.strictSame(read('a: {\nb: 1,\nc: {\nd: [\n2\n]\n}\n}\n'), [{ a: { b: 1, c: { d: [2] } } }])
  t.strictSame(read('a:\n- b: [1,\n2]\n  c: 3\n'), [{ a: [{ b: [1, 2], c: 3 }] }])
  t.strictSame(read('a: [x\ny]\n'), [{ a: ['x y'] }])
  t.strictSame(read('a: [\n\t1\n]\n'), [{ a: [1] }])
})

t.test('quotes', async (t) => {
  t.strictSame(read('a: "b\nc"\nd: 1\n'), [{ a: 'b c', d: 1 }])
  t.strictSame(read("a: 'b\n\n\nc'\n"), [{ a: 'b\n\nc' }])
  t.strictSame(read('a: "b\\\nc"\n'), [{ a: 'bc' }])
  t.strictSame(read(`${' '.repeat(40)}a: "b\nc"\n`), [{ a: 'b c' }], 'however deep it is')
})

t.test('what is wrong is still wrong, in its own line', async (t) => {
  t.match(read('a: [\n1\nb: 2\n'), [{ file: 'a.yaml', line: 3 }])
  t.match(read('a: "b\n...\nc"\n'), [{ file: 'a.yaml', line: 2 }])
  t.match(read('a: [\n'), [{ file: 'a.yaml' }])
  t.match(read('a: 1\n b: 2\n'), [{ file: 'a.yaml', line: 2 }])
})

t.test('many lines are read at once; where that cannot be told each reading is paid for', async (t) => {
  t.match(read(`a: [\n${'1, # one ]\n"]",\n'.repeat(3000)}]\nb: 1\n`), [{ b: 1 }])
  const budget = roundBudget()
  const text = `a: "\n${'b\n'.repeat(3000)}"\nc: 1\n`
  const { problems } = readFiles([{ path: 'a.yaml', data: Buffer.from(text) }], { budget })
  t.match(problems, [{ text: /too many values/ }])
})

t.test('where few bytes would become many, they are refused before they are', async (t) => {
  const before = process.memoryUsage().arrayBuffers
  for (const [depth, lines] of [
    [8000, 8000],
    [100_000, 1000],
    [100, 100_000],
  ] as const) {
    const text = `a:\n${' '.repeat(depth)}b: [\n${'x,\n'.repeat(lines)}]\n`
    t.match(read(text), [{ file: 'a.yaml', line: 3, text: /too many lines in brackets/ }], `${depth}, ${lines}`)
  }
  t.ok(process.memoryUsage().arrayBuffers - before < 1 << 20)
  t.match(read(`a:\n${' '.repeat(1000)}b: [\n${'x,\n'.repeat(1000)}]\n`), [{ a: { b: { length: 1000 } } }])
})
