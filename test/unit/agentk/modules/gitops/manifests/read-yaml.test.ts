import t from 'tap'
import { maxObjectCharacters, readFiles } from '../../../../../../src/agentk/modules/gitops/manifests/read-yaml.ts'
import {
  maxDocuments,
  maxMarks,
  maxRoundMarks,
  maxTreeCharacters,
} from '../../../../../../src/agentk/modules/gitops/manifests/round-budget.ts'
import { maxAliases, maxDepth } from '../../../../../../src/agentk/modules/gitops/manifests/yaml-trees.ts'
import { maxObjects } from '../../../../../../src/proto/gitops/limits.ts'

const file = (text: string | Uint8Array, path = 'a.yaml') => ({ path, data: Buffer.from(text) })
const read = (text: string) => readFiles([file(text)])
const problem = (text: string) => read(text).problems
const objectOf = (text: string) => read(text).documents[0]?.object

t.test('each document has its file and line', async (t) => {
  const { documents, problems } = readFiles([
    file('# first\na: 1\n---\n# none\n---\n\n# second\nb: 2\n...\n', 'x/one.yaml'),
    file('{\n\t"c": "\\/\\ud83d\\ude00",\n\t"d": [1,\t2]\n}\n', 'two.json'),
    file('', 'empty.yaml'),
  ])
  t.strictSame(problems, [])
  t.strictSame(documents, [
    { object: { a: 1 }, file: 'x/one.yaml', line: 2 },
    { object: { b: 2 }, file: 'x/one.yaml', line: 8 },
    { object: { c: '/😀', d: [1, 2] }, file: 'two.json', line: 1 },
  ])
})

t.test('what has items stands for these, with their own lines, as kubectl has it', async (t) => {
  const { documents } = read(
    [
      'apiVersion: v1',
      'kind: BList',
      'items:',
      '- name: x',
      '- apiVersion: v2',
      '  kind: List',
      '  items:',
      '  - kind: C',
      '  -',
      '    name: z',
      '- kind: A',
      '  items: []',
      '- kind: A',
      '  items:',
      '---',
      'kind: Other',
      'items:',
    ].join('\n'),
  )
  t.strictSame(
    documents.map(({ object, line }) => [line, object]),
    [
      [4, { apiVersion: 'v1', kind: 'B', name: 'x' }],
      [8, { kind: 'C' }],
      [10, { name: 'z' }],
      [13, { kind: 'A', items: null }],
    ],
  )
  for (const [text, line, fault] of [
    ['kind: List\nitems: [1]', 1, 'an item of the List is no object'],
    ['kind: Other\nitems: a', 1, 'items is to be a list, as of a kind List'],
    ['kind: List\nitems: [{kind: A, items: [1]}]', 2, 'an item of a list is no object'],
  ] as const)
    t.strictSame(problem(text), [{ file: 'a.yaml', line, text: fault }])
})

t.test('a file with a problem has no documents, the others have theirs', async (t) => {
  const { documents, problems } = readFiles([file('a: 1\n---\nb: "x', 'bad.yaml'), file('c: 1', 'good.yaml')])
  t.strictSame(
    documents.map(({ file }) => file),
    ['good.yaml'],
  )
  t.match(problems, [{ file: 'bad.yaml', line: 3, text: /double quoted/ }])
})

t.test('problems say the line', async (t) => {
  const cases: readonly (readonly [string, number, string])[] = [
    ['a: 1\nb:\n\tc: 2\n', 3, 'tab characters'],
    ['a: 1\nb: 2\na: 3\n', 3, 'the map has the key a twice'],
    ['\n- 1\n', 2, 'the document is no object'],
    ['text', 1, 'the document is no object'],
    ['a: *b\n', 1, 'no anchor &b'],
    ['a: &b {c: *b}\n', 1, 'no anchor &b'],
    ['x: 1\n~: 1\n', 2, 'a key of a map is text'],
    ['1.10: 1', 1, 'a key of a map is text'],
    ['[1]: 1', 1, 'a key of a map is text'],
    ['__proto__: 1', 1, '__proto__'],
    ['a: 1\n<<: 1', 2, '<< wants a map'],
    ['a: .inf', 1, 'the value is no number of JSON'],
    ['a: .nan', 1, 'the value is no number of JSON'],
    ['a: 9007199254740993', 1, 'cannot be kept exactly'],
    ['a:\n  !!int x', 2, 'the value is no !!int'],
    ['a: !!binary "!"', 1, 'the value is no !!binary'],
  ]
  for (const [text, line, why] of cases) {
    const [found, ...more] = problem(text)
    t.equal(found?.line, line, text)
    t.ok(found?.text.includes(why), `${text}: ${found?.text}`)
    t.strictSame(more, [])
  }
  t.strictSame(readFiles([file(Buffer.from([0x61, 0x3a, 0xff]))]).problems, [
    { file: 'a.yaml', line: 0, text: 'the file is no UTF-8 text' },
  ])
})

t.test('a text that perhaps is a Secret is not quoted', async (t) => {
  const head = 'apiVersion: v1\nkind: Secret\nmetadata: {name: a}\n'
  const cases: readonly (readonly [string, number, string])[] = [
    [`${head}data:\n  pw: a\n  pw: b\n`, 6, 'the map has a key twice'],
    [`${head}stringData: {a: *pw }\n`, 4, 'no anchor stands before an alias: a text that begins with * wants quotes'],
    [`${head}stringData: {a: !p!w x}\n`, 4, 'undeclared tag handle'],
    [`${head}stringData: {a: !p^w x}\n`, 4, 'tag name cannot contain such characters'],
    [`stringData: {pw: a, pw: b}\n${head}`, 1, 'the map has a key twice'],
    ['{"kind": "SecretList", "items": [{"data": {"pw": "", "pw": ""}}]}', 1, 'the map has a key twice'],
    ['kind: List\nitems:\n- kind: Secret\n  data: {pw: a, pw: b}\n', 4, 'the map has a key twice'],
    ['kind: !!str secret # c\ndata: {pw: a, pw: b}\n', 2, 'the map has a key twice'],
    ['kind: # c\n  Secret\ndata: {pw: a, pw: b}\n', 3, 'the map has a key twice'],
    ['? kind\n: Secret\ndata: {pw: a, pw: b}\n', 3, 'the map has a key twice'],
    ['a: &a Secret\nkind: *a\ndata: {pw: a, pw: b}\n', 3, 'the map has a key twice'],
  ]
  for (const [text, line, fault] of cases) t.strictSame(problem(text), [{ file: 'a.yaml', line, text: fault }], text)
  t.strictSame(problem(`a: 1\na: 2\n---\n${head}`), [{ file: 'a.yaml', line: 2, text: 'the map has the key a twice' }])
  const others = ['SealedSecret', 'ExternalSecret', 'SecretProviderClass', 'Deployment']
  for (const kind of others) {
    const text = `kind: ${kind}\nspec: {secret: a, key: 1, key: 2}\n`
    t.strictSame(problem(text), [{ file: 'a.yaml', line: 2, text: 'the map has the key key twice' }], kind)
  }
})

t.test('documents begin where YAML says', async (t) => {
  const lines = (text: string) => {
    const { documents, problems } = read(text)
    return problems.length > 0 ? problems : documents.map(({ line, object }) => [line, object])
  }
  t.strictSame(lines('%YAML 1.1\n---\na: 1\n...\n---\nb: 2\n'), [
    [3, { a: 1 }],
    [6, { b: 2 }],
  ])
  t.strictSame(lines('--- {a: 1}\n--- # c\r\nb: 2\r\n---\r\n'), [
    [1, { a: 1 }],
    [3, { b: 2 }],
  ])
  t.strictSame(lines('a: |\n  x\n  ---\n  y\nb: ---x\n---x: 1\n'), [[1, { a: 'x\n---\ny\n', b: '---x', '---x': 1 }]])
  t.strictSame(lines('\ufeffa: 1'), [[1, { a: 1 }]])
  t.match(lines('a: 1\n---\nb: [\n---\nc: 1\n'), [
    { line: 4, text: 'unexpected end of the stream within a flow collection' },
  ])
})

t.test('merged pairs win over those before and give way to those behind, as in Go', async (t) => {
  t.strictSame(objectOf('{a: 1, <<: {a: 2, b: 3}}'), { a: 2, b: 3 })
  t.strictSame(objectOf('{<<: {a: 2, b: 3}, a: 1}'), { a: 1, b: 3 })
  t.strictSame(objectOf('{<<: [{a: 2, b: 3}, {a: 4, c: 5}]}'), { a: 2, b: 3, c: 5 })
  t.strictSame(objectOf('{"<<": {a: 2}}'), { '<<': { a: 2 } })
  t.strictSame(objectOf('x: &x {a: 1}\nz: {<<: *x, b: 2}'), { x: { a: 1 }, z: { a: 1, b: 2 } })
})

t.test('anchors end with their document', async (t) => {
  t.match(problem('a: &x 1\n---\nb: *x\n'), [{ line: 3, text: 'no anchor &x stands before' }])
})

t.test('what is too much is refused before it is built', async (t) => {
  const aliases = (count: number) => `a: &x 1\nb: [${Array(count).fill('*x').join(', ')}]`
  t.strictSame(problem(aliases(maxAliases)), [])
  t.match(problem(aliases(maxAliases + 1)), [{ line: 2, text: `more than ${maxAliases} aliases` }])

  const nested = (depth: number) => `a: ${'['.repeat(depth - 1)}${']'.repeat(depth - 1)}`
  t.strictSame(problem(nested(maxDepth)), [])
  t.match(problem(nested(maxDepth + 1)), [{ line: 1 }])
  t.match(problem(`a: ${'['.repeat(100_000)}`), [{ line: 1 }])
  const half = maxDepth / 2
  const deepAlias = (depth: number) =>
    `a: &x ${'['.repeat(half)}${']'.repeat(half)}\nb: ${'['.repeat(depth)}*x${']'.repeat(depth)}`
  t.strictSame(problem(deepAlias(half - 1)), [])
  t.match(problem(deepAlias(half)), [{ line: 2, text: /inside one another/ }])

  t.match(problem(`a: 1\n---\na: [${'a,'.repeat(maxMarks)}]`), [{ line: 2, text: /too many values/ }])
  t.strictSame(problem(`a: [${'1,'.repeat(maxMarks / 10)}]\n---\n`.repeat(11)), [], 'of one document')
  const wide = file(`a: [${'1,'.repeat(maxRoundMarks / 2 - 10)}]`)
  t.match(readFiles([wide, wide, wide]).problems, [{ line: 1, text: /too many values/ }], 'all files together')
  const lol = ['a0: &a0 [lol,lol,lol,lol,lol,lol,lol,lol,lol]']
  for (let level = 1; level < 10; level++) {
    lol.push(
      `a${level}: &a${level} [${Array(9)
        .fill(`*a${level - 1}`)
        .join(',')}]`,
    )
  }
  t.match(problem(lol.join('\n')), [{ line: 8, text: /characters of values/ }])
  const listed = (count: number) => `kind: List\nitems: [${Array(count).fill('{}').join(',')}]`
  t.equal(read(listed(maxObjects)).documents.length, maxObjects)
  t.match(read(listed(maxObjects + 1)), { documents: [], problems: [{ line: 2, text: 'more than 10000 objects' }] })
  const level = (of: string) => `{kind: List, items: [${Array(30).fill(of).join(',')}]}`
  const lists = [
    'kind: List',
    `x: &a ${level('{}')}`,
    `y: &b ${level('*a')}`,
    `z: &c ${level('*b')}`,
    'items: [*c, *c]',
  ]
  t.match(read(lists.join('\n')), { documents: [], problems: [{ text: 'more than 10000 objects' }] })
  const part = file(`a: ${'x'.repeat(maxTreeCharacters / 16)}`)
  t.match(readFiles(Array(16).fill(part)).problems, [{ line: 1, text: /characters of values/ }], 'all files together')
})

t.test('of documents, empty ones count, too', async (t) => {
  const empty = (count: number) => file('---\n'.repeat(count))
  t.strictSame(readFiles([empty(maxDocuments)]).problems, [])
  const why = `more than ${maxDocuments} documents`
  t.match(readFiles([empty(maxDocuments + 1)]).problems, [{ line: maxDocuments + 1, text: why }])
  t.match(readFiles([empty(maxDocuments), file('a: 1')]).problems, [{ line: 1, text: why }], 'all files together')
  const directed = file(`# a\n%YAML 1.1\n${'---\n'.repeat(maxDocuments)}`)
  t.match(readFiles([directed, file('a: 1')]).problems, [{ line: 1, text: why }], 'of one parser')
})

t.test('a file of many documents behind a directive is looked through once', async (t) => {
  const lines = `${'# x\n'.repeat(100_000)}%\n${'---\n'.repeat(100_000)}`
  t.match(problem(lines), [{ line: 100_001 }])
})

t.test('an object is measured with what its aliases stand for', async (t) => {
  const long = `x: &x ${'x'.repeat(maxObjectCharacters / 3)}`
  const object = (aliases: number) => `{a: [${Array(aliases).fill('*x').join(', ')}]}`
  t.strictSame(problem(`${long}\nb: ${object(1)}`), [])
  t.match(problem(`a: 1\n---\n${long}\nb: ${object(2)}`), [
    { line: 3, text: /^the object is too large: \d+ of 6291456/ },
  ])
  const list = (item: string) => `kind: List\n${long}\nitems:\n- ${object(2)}\n- ${object(2)}\n- ${item}\n`
  t.equal(read(list(object(2))).documents.length, 3, 'each item of a list')
  t.match(problem(list(object(3))), [{ line: 6, text: /^the object is too large/ }])
  t.match(problem(list(`{kind: AList, items: [${object(2)}, ${object(3)}]}`)), [{ line: 6, text: /too large/ }])
})
