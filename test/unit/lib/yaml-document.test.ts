import t from 'tap'
import { LineCounter } from 'yaml'
import { parseYamlDocument } from '../../../src/lib/yaml-document.ts'

const faultsOf = (text: string) => parseYamlDocument(text, new LineCounter()).faults

t.test('values, merges and aliases are read', async (t) => {
  const { document, faults } = parseYamlDocument('a: &a { x: 1 }\nb: { <<: *a, y: *a }\n', new LineCounter())
  t.same(faults, [])
  t.strictSame(document.toJS(), { a: { x: 1 }, b: { x: 1, y: { x: 1 } } })
})

t.test('an empty text is an empty document', async (t) => {
  for (const text of ['', '# nothing\n', '---\n']) t.same(faultsOf(text), [], JSON.stringify(text))
})

t.test('keys are plain, and each stands once', async (t) => {
  t.strictSame(faultsOf('a: 1\nb: { c: 1, c: 2 }\n'), [{ offset: 16, message: 'Map keys must be unique' }])
  t.match(faultsOf('1: a\n"1": b\n'), [{ offset: 5 }], 'also if only the object keys are the same')
  t.match(faultsOf('__proto__: a\n__proto__: b\n'), [{ message: 'Map keys must be unique' }])
  t.match(faultsOf('a: &x [1]\n*x : 2\n'), [{ offset: 10, message: 'Map keys must be plain' }])
})

t.test('one document alone', async (t) => {
  t.match(faultsOf('a: 1\n---\nb: 1\n'), [{ message: 'more than one document' }])
})

t.test('what would take long is refused, or does not', async (t) => {
  const many = (n: number, text: (i: number) => string) => Array.from({ length: n }, (_, i) => text(i)).join('')
  const aliases = faultsOf(`a: &a x\nb: [${'*a,'.repeat(10_000)}]\n`)
  t.match(aliases, [{ message: 'more than 200 aliases' }])
  t.ok(faultsOf(']'.repeat(100_000)).length <= 101)
  // these keys take about as long as the same bytes otherwise; comparing all pairs would take fifty times as long
  const keys = many(40_000, (i) => `k${i}:\n`)
  const list = `a:\n${many(40_000, (i) => `- k${i}\n`)}`
  const ms = (text: string) => {
    const began = performance.now()
    faultsOf(text)
    return performance.now() - began
  }
  const plain = Math.min(ms(list), ms(list))
  t.ok(Math.min(ms(keys), ms(keys)) < 10 * plain)
})

t.test('values are counted with those that aliases stand for, if that is asked for', async (t) => {
  const isOver = (text: string, maxNodes: number) =>
    parseYamlDocument(text, new LineCounter(), { maxNodes }).faults.some(({ message }) =>
      message.startsWith('more than'),
    )
  const cases: [nodes: number, text: string][] = [
    [1, 'a'],
    [5, 'a: 1\nb: 2\n'],
    [4, 'a: [1]\n'],
    [3, 'a:\n'],
    [9, 'a: &x [1, 2]\nb: *x\n'], // two keys, the list twice, the block
    [17, 'a: &x [1, 2]\nb: &y [*x, *x]\nc: 1\nd: \n'],
    [7, 'a: &x 1\nb: &x 2\nc: *x\n'],
    [25, `a: &x ${'s'.repeat(640)}\nb: *x\n`],
    [13, 'a: &x { b: 1 }\nc: { <<: *x }\nd: 1\n'],
  ]
  for (const [nodes, text] of cases) {
    t.equal(isOver(text, nodes), false, `${JSON.stringify(text)} has ${nodes}`)
    t.equal(isOver(text, nodes - 1), true, `${JSON.stringify(text)} has no fewer`)
  }
  t.same(faultsOf(`a: [${'1,'.repeat(50_000)}]`), [], 'else there is no such limit')
})
