import { gzipSync } from 'node:zlib'

/** Targets that a hidden way reaches when the checks are off. */
export interface Trap {
  /** address of a counting port on loopback: `http://127.0.0.1:1234` */
  readonly address: string
  /** a folder outside the commit, relative to a folder in its root */
  readonly outside: string
  /** the same folder, absolute */
  readonly outsidePath: string
}

/** Files of a commit that hide a reference to the outside from the checks. */
export interface HiddenWay {
  readonly name: string
  readonly files: Readonly<Record<string, string | Buffer>>
}

const map = (name: string) => `apiVersion: v1\nkind: ConfigMap\nmetadata: { name: ${name} }\ndata: { a: b }\n`
const base64 = (text: string) => Buffer.from(text).toString('base64')

/** Returns ways for kustomize; the kustomization is `prod`. */
export function kustomizeWays({ address, outside }: Trap): HiddenWay[] {
  const url = `${address}/map.yaml`
  const escaped = url.replaceAll('/', '\\x2f')
  const way = (name: string, text: string | Buffer, more: HiddenWay['files'] = {}): HiddenWay => ({
    name,
    files: { 'prod/kustomization.yaml': text, 'prod/a.yaml': map('a'), ...more },
  })
  const generator = (files: string) =>
    `apiVersion: builtin\nkind: ConfigMapGenerator\nmetadata: { name: gen }\nfiles: [${files}]\n`
  const oneLine = `{"apiVersion":"builtin","kind":"ConfigMapGenerator","metadata":{"name":"gen"},"files":["k=${url.replaceAll('/', '\\/')}"]}`
  /** the file exists too, for a reader that takes the base64 text literally */
  const inBase64 = (name: string, tag: string, head = ''): HiddenWay =>
    way(name, `${head}resources: [${tag} "${base64(url)}"]`, { [`prod/${base64(url)}`]: map('b') })
  const inGenerators = (kustomization: string, more: HiddenWay['files']) => ({
    'prod/gen/kustomization.yaml': kustomization,
    ...more,
  })
  const replaced = JSON.stringify([{ op: 'replace', path: '/files/0', value: `k=${url}` }])
  const byPatch = `resources: [g.yaml]\npatches: [{ target: { kind: ConfigMapGenerator }, patch: '${replaced}' }]\n`
  const byReplacement = [
    'resources: [g.yaml, a.yaml]',
    'replacements:',
    '- source: { kind: ConfigMap, name: a, fieldPath: data.a }',
    '  targets: [{ select: { kind: ConfigMapGenerator }, fieldPaths: [files.0] }]',
  ].join('\n')
  return [
    way('an address', `resources: ["${url}"]`),
    inBase64('a tag with an escape', '!!bin%61ry'),
    way('a key by a tag with an escape', `? !!bin%61ry "${base64('resources')}"\n: ["${url}"]`),
    inBase64('%TAG of the first handle', '!binary', '%TAG ! tag:yaml.org,2002:\n---\n'),
    inBase64('%TAG of a part', '!e!ary', '%TAG !e! tag:yaml.org,2002:bin\n---\n'),
    inBase64('!!binary', '!!binary'),
    inBase64('a verbatim tag', '!<tag:yaml.org,2002:binary>'),
    inBase64('a verbatim tag with an escape', '!<tag:yaml.org,2002:bin%61ry>'),
    inBase64('a verbatim short tag', '!<!!binary>'),
    way('a local tag', `resources: [!address "${url}"]`),
    way('escapes in quotes', `resources: ["${escaped}"]`),
    way('escapes of JSON', `{"resources": ["${url.replaceAll('/', '\\/')}"]}`),
    way('a line that goes on', `resources: ["${url.replace('//', '/\\\n  /')}"]`),
    way('an alias', `metadata: { name: &u "${url}" }\nresources: [*u]`),
    way('an alias of a list', `metadata: { name: a, labels: &u { a: b } }\nbases: &b ["${url}"]\nresources: *b`),
    way('a merge', `<<: { resources: ["${url}"] }\nnamePrefix: a-`),
    way('a merge that wins', `resources: [a.yaml]\n<<: { resources: ["${url}"] }`),
    way('a merge that loses', `<<: { resources: [a.yaml] }\nresources: ["${url}"]`),
    way('merges of which one wins', `<<: [{ resources: ["${url}"] }, { resources: [a.yaml] }]`),
    way('a merge by a tag', `!!merge <<: { resources: ["${url}"] }\nnamePrefix: a-`),
    way('a key twice', `resources: [a.yaml]\nresources: ["${url}"]`),
    way('a key twice, by case', `resources: [a.yaml]\nRESOURCES: ["${url}"]`),
    way('a long s', `reſources: ["${url}"]`),
    way('UTF-16', Buffer.from(`\ufeffresources: ["${url}"]`, 'utf16le')),
    way('a byte order mark in the midst', `# first\n\ufeffresources: ["${url}"]`),
    way('two byte order marks', `\ufeff\ufeff\ufeffresources: ["${url}"]`),
    way('U+0085 ends a comment', `resources: [a.yaml] # a\u0085bases: ["${url}"]`),
    way('U+2028 ends a comment', `# a\u2028resources: ["${url}"]`),
    way('a carriage return ends a comment', `# a\rresources: ["${url}"]`),
    way('an explicit key', `? resources\n: - "${url}"`),
    way('a folded block', `resources:\n- >-\n  ${url}`),
    way('a plain scalar of two lines', `resources:\n- ${url}?a\n  b`),
    way('a comment without a space', `resources: [a.yaml,#"]\n"${url}"]`),
    way('a document behind', `--- # none\n{}\n---\nresources: ["${url}"]`),
    way('an anchor with a colon', `metadata: { name: &a:b "${url}" }\nresources: [*a:b ]`),
    way('a key behind ? in brackets', `{?resources: ["${url}"]}`),
    way('an entry that ends with a colon', `resources: [a.yaml, ${url}:]`),
    way('a set of entries', `resources: [a.yaml, ? "${url}"]`),
    way('a line end that one reader adds', `resources: [a.yaml]\npatchesStrategicMerge:\n- |\n  ${url}`),
    way('a folder by a line end that one reader adds', 'resources:\n- |\n  ../c', {
      'c\n/kustomization.yaml': 'resources: [../prod/a.yaml]',
      'c/kustomization.yaml': `resources: ["${url}"]`,
    }),
    way('a space that is none behind ---', `---\u00a0a: b\n...\n---\nresources: ["${url}"]`),
    way('a patch by its path', `resources: [a.yaml]\npatches: [{ Path: "${escaped}" }]`),
    way('a generated file', `configMapGenerator: [{ name: g, files: ["k=${escaped}"] }]`),
    way('a generated environment', `configMapGenerator: [{ name: g, ENVS: ["${escaped}"] }]`),
    way('a definition of kinds', `resources: [a.yaml]\ncrds: ["${url}"]`),
    way('a generator of a file', 'generators: [g.yaml]', { 'prod/g.yaml': generator(`"k=${escaped}"`) }),
    way('a generator of a file, by !!binary', 'generators: [g.yaml]', {
      'prod/g.yaml': generator(`!!bin%61ry ${base64(`k=${url}`)}`),
    }),
    way('a generator in the text', `generators: [${JSON.stringify(generator(`"k=${escaped}"`))}]`),
    way('a generator whose text is the name of a file', `generators: [${JSON.stringify(oneLine)}]`, {
      [`prod/${oneLine}`]: map('a'),
    }),
    way('a text that is an address as well', `generators: ["${url}?{: a"]`),
    way(
      'a folder of generators',
      'generators: [gen]',
      inGenerators('resources: [g.yaml]', {
        'prod/gen/g.yaml': generator(`"k=${url}"`),
      }),
    ),
    way(
      'a folder of a folder of generators',
      'generators: [gen]',
      inGenerators('resources: [more]', {
        'prod/gen/more/kustomization.yaml': 'resources: [g.yaml]',
        'prod/gen/more/g.yaml': generator(`"k=${url}"`),
      }),
    ),
    way(
      'a folder of manifests and of generators',
      'resources: [gen]\ngenerators: [gen]',
      inGenerators('resources: [g.yaml]', {
        'prod/gen/g.yaml': generator(`"k=${url}"`),
      }),
    ),
    way(
      'a generator that is patched',
      'generators: [gen]',
      inGenerators(byPatch, {
        'prod/gen/g.yaml': generator('k=a.yaml'),
      }),
    ),
    way(
      'a generator with a replacement',
      'generators: [gen]',
      inGenerators(byReplacement, {
        'prod/gen/g.yaml': generator('k=a.yaml'),
        'prod/gen/a.yaml': `apiVersion: v1\nkind: ConfigMap\nmetadata: { name: a }\ndata: { a: "k=${url}" }\n`,
      }),
    ),
    way('a folder outside', `resources: ["${outside}"]`),
    way('a folder outside, by a tag', `resources: [!!bin%61ry "${base64(outside)}"]`, {
      [`prod/${base64(outside)}/kustomization.yaml`]: 'resources: [../a.yaml]',
    }),
    way('a folder outside, by a detour', `resources: [./x/../${outside}/.]`),
    way('a component outside', `resources: [a.yaml]\ncomponents: ["${outside}/component"]`),
    way('a folder outside, behind a comment', `generators: ["a: b\\n#/../${outside}/generators"]`),
    way('a folder with the name of a repository', 'resources: ["git@127.0.0.1:a/b"]', {
      'prod/git@127.0.0.1:a/b/kustomization.yaml': '',
    }),
  ]
}

/** Returns ways for helm; the chart is `prod`. */
export function helmWays({ address, outsidePath }: Trap): HiddenWay[] {
  const url = `${address}/schema.json`
  const file = `file://${outsidePath}/schema.json`
  const way = (name: string, schema: unknown, more: HiddenWay['files'] = {}): HiddenWay => ({
    name,
    files: {
      'prod/Chart.yaml': 'apiVersion: v2\nname: shop\nversion: 1.0.0\n',
      'prod/values.yaml': 'color: red\n',
      'prod/templates/a.yaml': `${map('a')}---\n${map('{{ .Values.color }}')}`,
      'prod/values.schema.json': typeof schema === 'string' ? schema : JSON.stringify(schema),
      ...more,
    },
  })
  const inSubchart = {
    'prod/charts/db/Chart.yaml': 'apiVersion: v2\nname: db\nversion: 1.0.0\n',
    'prod/charts/db/values.yaml': 'a: b\n',
  }
  const archive = tarball({
    'db/Chart.yaml': inSubchart['prod/charts/db/Chart.yaml'],
    'db/values.yaml': 'a: b\n',
    'db/values.schema.json': JSON.stringify({ $ref: url }),
  })
  /** gojsonschema knows the schema by its $id without the fragment, and opens that URL */
  const named = (id: string, place: string) => ({ $id: `${id}#a`, $ref: place })
  const draft4 = { $schema: 'http://json-schema.org/draft-04/schema#' }
  const properties = { color: { type: 'string' } }
  return [
    way('$ref', { $ref: url }),
    way('$ref with escapes', `{"\\u0024ref": "${url.replaceAll('/', '\\/')}"}`),
    way('$ref twice', `{"$ref": "#/definitions/a", "definitions": {"a": {}}, "$ref": "${url}"}`),
    way('$ref of a file', { $ref: file }),
    way('$ref in a list', { allOf: [{ $ref: `${file}#` }] }),
    way('$schema', { $schema: url, properties }),
    way('$schema of a part', { $defs: { a: { $schema: url, type: 'object' } }, $ref: '#/$defs/a' }),
    way('$dynamicRef', { $schema: 'https://json-schema.org/draft/2020-12/schema', $dynamicRef: url }),
    way('$id', { ...named(url, '#/x'), x: {} }),
    way('$id of a file', { ...named(file, '#/x'), x: {} }),
    way('$id with escapes', `{"\\u0024id": "${url.replaceAll('/', '\\/')}#a", "$ref": "#/x", "x": {}}`),
    way('id of draft 4', { ...draft4, id: `${url}#a`, $ref: '#/x', x: {} }),
    way('id without a draft', { id: `${url}#a`, $ref: '#/x', x: {} }),
    way('$id of a property', { properties: { color: named(url, '#/x') }, x: {} }),
    way('$id of a property by the name const', {
      properties: { const: named(url, '#/x'), color: { $ref: '#/properties/const' } },
    }),
    way('$id of a definition', { definitions: { a: named(file, '#/x') }, $ref: '#/definitions/a', x: {} }),
    way('$id in a constant', { const: named(url, '#/x'), $ref: '#/const', x: {} }),
    way('$id of an entry', { properties: { color: { allOf: [named(url, '#/x')] } }, x: {} }),
    way(
      '$id of a chart inside',
      { properties },
      {
        ...inSubchart,
        'prod/charts/db/values.schema.json': JSON.stringify(named(url, '#/x')),
      },
    ),
    way('an archive', { properties }, { 'prod/charts/db-1.0.0.tgz': archive }),
    way('$id of a fragment, with an address inside', { $id: `#${url}`, properties: { color: { $ref: '#/x' } }, x: {} }),
  ]
}

/** Packs files as `tar` does. */
function tarball(files: Readonly<Record<string, string>>): Buffer {
  const blocks = Object.entries(files).flatMap(([path, text]) => {
    const header = Buffer.alloc(512)
    const octal = (value: number, width: number) => value.toString(8).padStart(width - 1, '0')
    header.write(path, 0)
    header.write(octal(0o644, 8), 100)
    header.write(octal(0, 8), 108)
    header.write(octal(0, 8), 116)
    header.write(octal(Buffer.byteLength(text), 12), 124)
    header.write(octal(0, 12), 136)
    header.write(' '.repeat(8), 148)
    header.write('0', 156)
    header.write('ustar\0' + '00', 257)
    header.write(
      octal(
        header.reduce((sum, byte) => sum + byte, 0),
        7,
      ),
      148,
    )
    const body = Buffer.alloc(Math.ceil(Buffer.byteLength(text) / 512) * 512)
    body.write(text)
    return [header, body]
  })
  return gzipSync(Buffer.concat([...blocks, Buffer.alloc(1024)]))
}
