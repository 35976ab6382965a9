import t from 'tap'
import { readFiles } from '../../../../../../src/agentk/modules/gitops/manifests/read-yaml.ts'
import { roundBudget } from '../../../../../../src/agentk/modules/gitops/manifests/round-budget.ts'
import { FileSet, unsafePath } from '../../../../../../src/agentk/modules/gitops/render/file-set.ts'
import {
  helmArguments,
  helmProblems,
  hooksIn,
  mayHaveHooks,
  templateFiles,
} from '../../../../../../src/agentk/modules/gitops/render/helm.ts'
import { kustomizeProblems } from '../../../../../../src/agentk/modules/gitops/render/hermetic.ts'

const setOf = (files: Readonly<Record<string, string>>) =>
  new FileSet(Object.entries(files).map(([path, text]) => ({ path, data: Buffer.from(text) })))
const kustomization = (text: string, more: Readonly<Record<string, string>> = {}) =>
  kustomizeProblems(setOf({ 'prod/kustomization.yaml': text, 'prod/a.yaml': 'a: 1', ...more }), 'prod')

t.test('a kustomization may name what is in the commit', async (t) => {
  const text = [
    'resources: [a.yaml, ../base, ./sub/]',
    'components: [../part]',
    'patches: [{ path: a.yaml }, { patch: "a: 1" }]',
    'patchesStrategicMerge: [a.yaml, "kind: A\\nurl: https://example.com"]',
    'configMapGenerator: [{ name: a, files: [a.yaml, "key=../base/b.txt"], envs: [a.yaml] }]',
    'secretGenerator: [{ name: b, env: a.yaml, literals: [url=https://example.com] }]',
    'transformers: [a.yaml, t, "kind: A\\npatch: https://example.com\\n"]',
    'openapi: { path: a.yaml }',
    'images: [{ name: a, newName: example.com/b }]',
  ]
  const files = {
    'base/kustomization.yml': 'resources: [b.txt, ../base]',
    'base/b.txt': '',
    'prod/sub/Kustomization': '',
    'part/kustomization.yaml': 'kind: Component',
    'prod/t/kustomization.yaml': '',
  }
  t.strictSame(kustomization(text.join('\n'), files), [])
})

t.test('what it would take from elsewhere is refused', async (t) => {
  const bad: readonly (readonly [string, RegExp])[] = [
    ['resources: ["https://example.com/a.yaml"]', /^resources: https:\/\/example.com\/a.yaml is no file or folder/],
    ['resources: ["http://127.0.0.1:8080/a.yaml"]', /^resources: http/],
    ['bases: [github.com/a/b//c?ref=main]', /^bases: github/],
    ['components: ["git@example.com:a/b.git"]', /^components: git@/],
    ['resources: [../../a.yaml]', /^resources: \.\.\/\.\.\/a.yaml is no file/],
    ['resources: [/etc/passwd]', /^resources: \/etc\/passwd/],
    ['resources: [missing.yaml]', /^resources: missing.yaml/],
    ['patches: [{ path: "https://example.com/p.yaml" }]', /p.yaml is no file of the commit$/],
    ['patchesJson6902: [{ path: ../p.yaml }]', /^\.\.\/p.yaml is no file/],
    ['patchesStrategicMerge: [p.yaml]', /^p.yaml is no file/],
    ['replacements: [{ path: p.yaml }]', /^p.yaml is no file/],
    ['configMapGenerator: [{ files: ["k=https://example.com/x"] }]', /^https:\/\/example.com\/x is no file/],
    [
      'secretGenerator: [{ envs: [/proc/self/environ] }]',
      /^secretGenerator: an entry of files, env or envs is no file of the commit$/,
    ],
    ['openapi: { path: "https://example.com/o" }', /^https/],
    ['crds: ["https://example.com/c"]', /^https/],
    ['configurations: [c]', /^c is no file/],
    ['generators: ["https://example.com/g"]', /^https:.* is no file or folder/],
    [
      'transformers: ["kind: PatchTransformer\\nPath: https://example.com/p\\n"]',
      /^https:\/\/example.com\/p is no file/,
    ],
    ['Resources: ["http://127.0.0.1/a"]', /^resources: http/],
    ['reſources: ["http://127.0.0.1/a"]', /^resources: http/],
    ['PATCHES: [{ Path: "http://127.0.0.1/a" }]', /^http.* is no file/],
    ['helmCharts: [{ name: a, repo: "https://example.com" }]', /^helmCharts: charts are rendered by helm/],
  ]
  for (const [text, why] of bad) {
    const [problem, ...more] = kustomization(text)
    t.match(problem, { file: 'prod/kustomization.yaml', line: 1, text: why }, text)
    t.strictSame(more, [])
  }
  t.match(kustomization('resources: [../base]', { 'base/kustomization.yaml': '\nresources: ["https://b"]' }), [
    { file: 'base/kustomization.yaml', line: 2, text: /https:\/\/b/ },
  ])
  const ofFile = { 'prod/t.yaml': 'kind: ConfigMapGenerator\nfiles: ["https://example.com/f"]' }
  t.match(kustomization('generators: [t.yaml]', ofFile), [{ text: 'https://example.com/f is no file of the commit' }])
  t.match(kustomization('a: "'), [{ file: 'prod/kustomization.yaml', line: 1, text: /double quoted/ }])
  t.match(kustomizeProblems(setOf({ 'a.yaml': '' }), 'prod'), [
    { file: 'prod', line: 0, text: /no kustomization.yaml/ },
  ])
  t.match(kustomization('resources: [../base]', { 'base/a.yaml': '' }), [
    { file: 'base', text: /no kustomization.yaml/ },
  ])
})

t.test('a value in the place of a path is not shown', async (t) => {
  const entry = 'secretGenerator: an entry of files, env or envs is no file of the commit'
  const cases: readonly (readonly [string, string])[] = [
    ['secretGenerator: [{ name: a, files: ["key=pw"] }]', entry],
    ['secretGenerator: [{ name: a, files: [pw, pw2] }]', entry],
    ['SecretGenerator: [{ name: a, env: "key=pw" }]', entry],
    [`patchesStrategicMerge: ['{"kind":"Secret","data":{"key":"pw"}}']`, '*** is no file of the commit'],
    [`generators: ["kind: SecretGenerator\\nliterals: []\\nenvs: ['https://pw']\\n"]`, '*** is no file of the commit'],
  ]
  for (const [text, shown] of cases)
    t.strictSame(
      kustomization(text).map((one) => one.text),
      [shown],
      text,
    )
})

const chart = { chart: 'charts/shop', values: ['prod/values.yaml'], release: 'shop' }
const chartFiles = {
  'charts/shop/Chart.yaml':
    'name: shop\nversion: 1.0.0\ndependencies:\n- {name: redis, version: ~1.2}\n- {name: db, version: 3.0.0}\n',
  'charts/shop/charts/redis-1.2.9.tgz': '',
  'charts/shop/charts/db/Chart.yaml': 'name: db',
  'prod/values.yaml': '',
}

t.test('a chart has its dependencies and values in the commit', async (t) => {
  t.strictSame(helmProblems(setOf(chartFiles), chart), [])
  const { 'charts/shop/charts/redis-1.2.9.tgz': _, ...unvendored } = chartFiles
  const text = 'the chart redis is not vendored in charts/shop/charts'
  const beside = { ...unvendored, 'charts/shop/charts/redis-cluster-1.2.9.tgz': '' }
  t.strictSame(helmProblems(setOf(beside), chart), [{ file: 'charts/shop/Chart.yaml', line: 1, text }])
  const older = {
    ...unvendored,
    'charts/shop/Chart.yaml': 'name: shop',
    'charts/shop/requirements.yaml': 'dependencies: [{name: redis}]',
  }
  t.strictSame(helmProblems(setOf(older), chart), [{ file: 'charts/shop/requirements.yaml', line: 1, text }])
  t.match(helmProblems(setOf(chartFiles), { ...chart, values: ['https://example.com/v.yaml'] }), [
    { file: 'https://example.com/v.yaml', text: 'the file of values is not in the commit' },
  ])
  t.match(helmProblems(setOf(chartFiles), { ...chart, chart: 'charts/other' }), [
    { text: 'the folder has no Chart.yaml' },
  ])
})

t.test('helm is told of the cluster', async (t) => {
  const cluster = { version: 'v1.35.4', apiVersions: ['v1', 'apps/v1'] }
  t.strictSame(helmArguments(setOf({}), { ...chart, chart: './charts/shop/' }, 'prod', cluster), [
    'template',
    'shop',
    './charts/shop',
    '--namespace',
    'prod',
    '--kube-version',
    'v1.35.4',
    '--include-crds',
    '--no-hooks',
    '--api-versions',
    'v1',
    '--api-versions',
    'apps/v1',
    '--values',
    './prod/values.yaml',
  ])
})

t.test('a chart has hooks, perhaps, if a template says so, or has archives; they are known by name', async (t) => {
  const hook = 'metadata: {name: j, annotations: {"helm.sh/hook": pre-install}}\nkind: Job\n'
  t.equal(mayHaveHooks(setOf({ 'charts/shop/templates/job.yaml': hook }), chart), true)
  t.equal(mayHaveHooks(setOf({ 'charts/shop/charts/a-1.tgz': '' }), chart), true)
  t.equal(mayHaveHooks(setOf({ 'charts/shop/README.md': hook, 'other/templates/a.yaml': hook }), chart), false)
  const printed = (text: string) => Buffer.from(`---\n# Source: shop/templates/a.yaml\n${text}`)
  const of = (text: string) => hooksIn(printed(text), chart, 'shop', roundBudget())
  t.strictSame(of(`${hook}---\nkind: ConfigMap\nmetadata: {name: a}\n`), ['Job shop/j (helm.sh/hook: pre-install)'])
  const secret = 'apiVersion: v1\nkind: Secret\nmetadata: {name: s, annotations: {"helm.sh/hook": pre-install}}\n'
  t.strictSame(of(secret), ['Secret shop/s (helm.sh/hook: ***)'])
  t.match(of('kind: ['), [/^what cannot be read of the chart with its hooks \(.*a\.yaml/])
})

t.test('what helm prints is of its templates', async (t) => {
  const output =
    '---\n# Source: shop/templates/a.yaml\na: 1\n---\n# Source: shop/templates/b.yaml\nb: 1\n---\n# Source: shop/templates/a.yaml\nc: 1\n'
  const files = templateFiles(Buffer.from(output), chart)?.map(({ path, data }) => [path, Buffer.from(data).toString()])
  t.strictSame(files, [
    [
      'charts/shop/templates/a.yaml (rendered)',
      '# Source: shop/templates/a.yaml\na: 1\n---\n# Source: shop/templates/a.yaml\nc: 1\n',
    ],
    ['charts/shop/templates/b.yaml (rendered)', '# Source: shop/templates/b.yaml\nb: 1\n'],
  ])
})

t.test('schemas of values lead nowhere else', async (t) => {
  const problemsOf = (schema: object, file = 'charts/shop/charts/db/values.schema.json') =>
    helmProblems(setOf({ ...chartFiles, [file]: JSON.stringify(schema) }), chart)
  const own = { $schema: 'http://json-schema.org/draft-07/schema#', $ref: '#/definitions/a', title: 'https://a' }
  t.strictSame(problemsOf(own), [])
  for (const foreign of [
    { a: [{ $ref: 'http://127.0.0.1/a' }] },
    { $ref: 'a.json' },
    { $schema: 'http://127.0.0.1/a' },
  ]) {
    t.match(problemsOf(foreign), [{ file: 'charts/shop/charts/db/values.schema.json', text: /helm would fetch it/ }])
    t.strictSame(problemsOf(foreign, 'other/values.schema.json'), [])
  }
  const cluster = { version: 'v1.35.4', apiVersions: [] }
  t.ok(helmArguments(setOf(chartFiles), chart, 'prod', cluster).includes('--skip-schema-validation'), 'of an archive')
})

t.test('what programs would read otherwise is refused', async (t) => {
  for (const end of ['\u0085', '\u2028', '\u2029']) {
    const hidden = `# note${end}resources: ["http://127.0.0.1/a"]\n`
    t.match(kustomization(hidden), [{ file: 'prod/kustomization.yaml', text: /U\+2028/ }])
    t.match(kustomization('generators: [a.yaml]', { 'prod/a.yaml': hidden }), [
      { file: 'prod/a.yaml', text: /U\+2028/ },
    ])
    const inline = JSON.stringify(`a: 1\n${hidden}`).replace(
      end,
      `\\u${end.charCodeAt(0).toString(16).padStart(4, '0')}`,
    )
    t.match(kustomization(`generators: [${inline}]`), [{ file: 'prod/kustomization.yaml', text: /U\+2028/ }])
    t.match(helmProblems(setOf({ ...chartFiles, 'charts/shop/Chart.yaml': hidden }), chart), [
      { file: 'charts/shop/Chart.yaml', text: /U\+2028/ },
    ])
  }
  t.strictSame(kustomization('resources: [a.yaml]', { 'prod/a.yaml': 'a: "\u2028"' }), [], 'where nothing is named')

  const file = 'charts/shop/values.schema.json'
  const bad: readonly (readonly [string, RegExp])[] = [
    ['{"$ref": "http://127.0.0.1/a"} x', /^the schema is no JSON$/],
    ['\ufeff{}', /^the schema is no JSON$/],
    ['['.repeat(100_000) + ']'.repeat(100_000), /^the schema (?:is no JSON|has more than 500 maps)/],
  ]
  for (const [schema, text] of bad) {
    t.match(helmProblems(setOf({ ...chartFiles, [file]: schema }), chart), [{ file, text }])
  }
})

t.test('what readers of YAML take for one thing or the other is refused', async (t) => {
  const bad: readonly (readonly [string, string, number])[] = [
    ['a: 1\nresources: [!!bin%61ry YQ==]', 'the tag !!bin%61ry: write the value without it', 2],
    ['resources: [!!binary YQ==]', 'the tag !!binary: write the value without it', 1],
    ['resources: !<!!binary> YQ==', 'the tag !<!!binary>: write the value without it', 1],
    ['!x resources: [a.yaml]', 'the tag !x: write the value without it', 1],
    ['resources: !!set {a.yaml}', 'the tag !!set: write the value without it', 1],
    ['# a\n%TAG ! tag:yaml.org,2002:\n---\na: 1', 'a directive (%YAML, %TAG) stands in it: leave it out', 2],
    ['a: 1\n\ufeffb: 2', 'a byte order mark (U+FEFF) stands behind the beginning: write it escaped, in quotes', 2],
    ['resources: [&a:b a.yaml]', 'an anchor has letters, digits, - and _ alone', 1],
    ['a: 1\n<<: {a: 2}', '<< brings a key that the map has: write it once, without <<', 2],
    ['<<: {a: 2}\na: 1', '<< brings a key that the map has: write it once, without <<', 2],
    ['<<: [{a: 2}, {a: 1}]', '<< brings a key that the map has: write it once, without <<', 1],
    ['{?resources: [a.yaml]}', 'a text that begins with ? or : wants quotes', 1],
    ['resources: [:a.yaml]', 'a text that begins with ? or : wants quotes', 1],
    ['a: 1\nresources: [a.yaml:]', 'an empty value in brackets: write null or ""', 2],
    ['a: {b, c}', 'an empty value in brackets: write null or ""', 1],
    ['a: "b\\\n \n  c"', 'an empty line behind \\ at the end of a line: write \\n', 1],
    ['---\u00a0a: b', 'a space that is none of YAML stands behind ---: leave it out', 1],
    ['"<<": {a: 2}', '<< brings a key that the map has: write it once, without <<', 1],
  ]
  for (const [text, why, line] of bad) {
    t.strictSame(kustomization(text), [{ file: 'prod/kustomization.yaml', line, text: why }], text)
    const { problems } = readFiles([{ path: 'a.yaml', data: Buffer.from(text) }])
    t.notMatch(problems, [{ text: why }], 'manifests are read as kubectl does')
  }
  const fine = '\ufeffresources: &r [!!str a.yaml]\ncomponents: *r\nmetadata: {<<: {name: a}, labels: {b: c}}'
  t.strictSame(kustomization(fine), [])
})

t.test('what makes generators has addresses nowhere, and nothing that could make one', async (t) => {
  const gen = 'kind: ConfigMapGenerator\nfiles: ["http://a"]'
  const folder = (text: string) => ({ 'prod/gen/kustomization.yaml': text, 'prod/gen/g.yaml': gen })
  t.match(kustomization('generators: [gen]', folder('resources: [g.yaml]')), [
    { text: 'http://a is no file of the commit' },
  ])
  t.match(kustomization('resources: [gen]\nvalidators: [gen]', folder('resources: [g.yaml]')), [{ text: /http:/ }])
  t.strictSame(kustomization('resources: [gen]', folder('resources: [g.yaml]')), [], 'it is an object like others')
  const alone = (field: string) => `${field}: a folder of generators, transformers or validators has resources alone`
  for (const field of ['patches', 'replacements', 'vars', 'namePrefix', 'Components', 'generators'])
    t.match(kustomization('transformers: [gen]', folder(`${field}: []`)), [
      { file: 'prod/gen/kustomization.yaml', text: alone(field) },
    ])
  t.match(kustomization('transformers: [{a: b}]'), [{ text: 'transformers: an entry is no text' }])

  for (const text of [
    'a: b\n#/../../../x',
    '{"files": ["http:\\/\\/a"]}',
    'http://a/?{: a',
    '/a: {b: c}',
    'git@a:b/{c: d}',
  ]) {
    const found = kustomization(`generators: [${JSON.stringify(text)}]`, { [`prod/${text}`]: 'a: 1' })
    t.match(found[0], { text: /may be read as a path$/ }, text)
  }
})

t.test('a path is a text, and ends as it stands', async (t) => {
  for (const text of ['resources: [{a: b}]', 'resources: [1]', 'crds: [[a.yaml]]', 'resources: {a: b}'])
    t.match(kustomization(text), [{ text: /: an entry is no text$/ }], text)
  t.match(kustomization('configMapGenerator: [{files: [{a: b}]}]'), [{ text: 'files: an entry is no text' }])
  const named = { 'prod/b\n': 'a: 1', 'prod/b ': 'path: http://a', 'prod/b': 'a: 1' }
  t.match(kustomization('resources:\n- |\n  b\n', named), [{ text: /is no file or folder/ }])
  t.match(kustomization('patchesStrategicMerge:\n- |\n  http://a\n'), [{ text: /is no file of the commit$/ }])
  t.match(kustomization('generators: ["b "]', named), [{ text: 'http://a is no file of the commit' }])
})

t.test('the name of a repository is no folder', async (t) => {
  for (const name of ['git@a:b/c', 'github.com/a/b', 'GitHub.com:a/b', 'git::a@b/c/d', 'user@host/a/b']) {
    t.match(kustomization(`resources: ["${name}"]`, { [`prod/${name}/kustomization.yaml`]: '' }), [
      { text: /is no file or folder/ },
    ])
  }
  const kept = { 'prod/vendor/github.com/a/kustomization.yaml': '', 'prod/a@1.yaml': '' }
  t.strictSame(kustomization('resources: [vendor/github.com/a, a@1.yaml]', kept), [])
})

t.test('a file is read once, however often it is named', async (t) => {
  const named = `generators: [${'a.yaml, '.repeat(10_000)}]`
  const files = { 'prod/a.yaml': `a: [${'1,'.repeat(100_000)}]\npath: "http://a"` }
  t.match(kustomization(named, files), [{ text: 'http://a is no file of the commit' }])
})

t.test('paths stay below the root', async (t) => {
  const unsafe = (path: string) =>
    unsafePath([
      { path: 'a/b', data: Buffer.of() },
      { path, data: Buffer.of() },
    ])
  for (const path of ['', '/a', '../a', 'a/../../b', 'a//b', './a', 'a/']) t.equal(unsafe(path)?.file, path)
  for (const path of ['a\0', 'a\n', '\u001b[2J/a', 'a\u009b', 'a\u202eb']) {
    t.match(unsafe(path), { line: 0, text: /or has control characters$/ })
    t.equal(unsafe(path)?.file, path.replace(/[^ -~]/, '?'), 'shown so that it steers no terminal')
  }
  for (const path of ['a', 'a/b c', '..a', '.a/b']) t.equal(unsafe(path), undefined)
})
