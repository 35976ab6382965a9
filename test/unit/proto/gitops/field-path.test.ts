import t from 'tap'
import { type FieldPath, parseFieldPath, pathText, readItem } from '../../../../src/proto/gitops/field-path.ts'

const name = (text: string) => ({ kind: 'name', name: text })
const segment = (text: string) => ({ kind: 'segment', name: text })
const key = (fields: object) => ({ kind: 'key', key: fields })

t.test('paths as the API server writes conflicts', async (t) => {
  const paths: Readonly<Record<string, readonly object[]>> = {
    '.spec.replicas': [name('spec'), name('replicas')],
    '.spec.containers[name="app"].resources': [
      name('spec'),
      name('containers'),
      key({ name: 'app' }),
      name('resources'),
    ],
    '.spec.ports[port=80,protocol="TCP"]': [name('spec'), name('ports'), key({ port: 80, protocol: 'TCP' })],
    '.a[*].b[*]': [name('a'), { kind: 'any' }, name('b'), { kind: 'any' }],
    '.a[0][12]': [name('a'), { kind: 'index', index: 0 }, { kind: 'index', index: 12 }],
    '.metadata.finalizers[="example.com/a"]': [
      name('metadata'),
      name('finalizers'),
      { kind: 'value', value: 'example.com/a' },
    ],
    '.a[=80].b': [name('a'), { kind: 'value', value: 80 }, name('b')],
    '.a[=null]': [name('a'), { kind: 'value', value: null }],
    '.a[ready=true,weight=-1.5]': [name('a'), key({ ready: true, weight: -1.5 })],
    '.metadata.annotations.tool.example/x': [name('metadata'), name('annotations'), name('tool'), name('example/x')],
    '.data.tls.crt': [name('data'), name('tls'), name('crt')],
    // texts with the signs of the syntax
    '.a[name="x,y]z=\\"1\\""].b': [name('a'), key({ name: 'x,y]z="1"' }), name('b')],
    '.a[mountPath="/var/run"]': [name('a'), key({ mountPath: '/var/run' })],
    '.a[name="\\u00e9"]': [name('a'), key({ name: 'é' })],
    '.a[name=""]': [name('a'), key({ name: '' })],
  }
  for (const [text, parts] of Object.entries(paths)) {
    t.strictSame(parseFieldPath(text), { text, parts }, text)
    t.strictSame((parseFieldPath(pathText({ text, parts } as FieldPath)) as FieldPath).parts, parts, `${text} again`)
  }
})

t.test('JSON Pointers', async (t) => {
  const paths: Readonly<Record<string, readonly string[]>> = {
    '/spec/replicas': ['spec', 'replicas'],
    '/spec/template/spec/containers/0/image': ['spec', 'template', 'spec', 'containers', '0', 'image'],
    '/metadata/annotations/tool.example~1x': ['metadata', 'annotations', 'tool.example/x'],
    '/data/a~0b': ['data', 'a~b'],
    '/data/a~01b': ['data', 'a~1b'],
    '/data/ca bundle.crt': ['data', 'ca bundle.crt'],
    '/data/["x"]': ['data', '["x"]'],
  }
  for (const [text, names] of Object.entries(paths)) {
    t.strictSame(parseFieldPath(text), { text, parts: names.map(segment) }, text)
    t.equal(pathText(parseFieldPath(text) as FieldPath), text)
  }
})

t.test('the whole object', async (t) => {
  for (const text of ['', '.', '/']) t.strictSame(parseFieldPath(text), { text, parts: [] }, `"${text}"`)
})

t.test('the first parts of a path are written as they are configured', async (t) => {
  const path = parseFieldPath('.spec.ports[port=80,protocol="TCP"].name') as FieldPath
  t.equal(pathText(path, 2), '.spec.ports')
  t.equal(pathText(path, 3), '.spec.ports[port=80,protocol="TCP"]')
  t.equal(pathText(parseFieldPath('/a/b~1c/0') as FieldPath, 2), '/a/b~1c')
})

t.test('texts that are no path: what is allowed', async (t) => {
  const texts: Readonly<Record<string, RegExp>> = {
    'spec.replicas': /begins with "\." or "\/"/,
    '$.spec.replicas': /begins with/,
    '#/spec/replicas': /begins with/,
    ' .spec': /begins with/,
    '.spec.': /the name of a field after each "\."/,
    '.spec..replicas': /the name of a field after each "\."/,
    '..spec': /the name of a field/,
    '.[0]': /the name of a field/,
    '.spec.*': /"\*" for the items of a list alone: \[\*\]/,
    '.spec.*.image': /"\*" for the items/,
    '.spec.containers[].image': /in brackets one item/,
    '.spec.containers[name=app]': /in brackets one item/,
    ".spec.containers[name='app']": /in brackets one item/,
    '.spec.containers[name="app"': /in brackets one item/,
    '.spec.containers[name="app]': /in brackets one item/,
    '.spec.containers[name="app",]': /in brackets one item/,
    '.spec.containers[name="app" ]': /in brackets one item/,
    '.spec.containers[name]': /in brackets one item/,
    '.spec.containers[="a"': /in brackets one item/,
    '.spec.containers[=]': /in brackets one item/,
    '.spec.containers[-1]': /in brackets one item/,
    '.spec.containers[01]': /in brackets one item/,
    '.spec.containers[name="\\x41"]': /in brackets one item/,
    '.spec.containers[': /in brackets one item/,
    '.spec.containers[0]image': /"\." or "\[" after "\]"/,
    '.metadata.annotations["tool.example/x"]': /keys as they are, without quotes/,
    ".metadata.annotations['tool.example/x']": /keys as they are/,
    '.metadata.annotations."tool.example/x"': /keys as they are/,
    '.metadata.annotations.tool\\.example/x': /keys as they are/,
    '.spec.containers[] | select(.name == "a")': /in brackets one item/,
    '.spec | .replicas': /keys as they are/,
    '//spec': /the name of a field after each "\/"/,
    '/spec/': /the name of a field after each "\/"/,
    '/spec//replicas': /the name of a field after each "\/"/,
    '/spec/a~b': /"~" as "~0"/,
    '/spec/a~': /"~" as "~0"/,
    '/spec/containers/*/image': /a JSON Pointer without "\*".*containers\[\*\]\.image/,
  }
  for (const [text, problem] of Object.entries(texts)) t.match(parseFieldPath(text), { problem }, text)
})

t.test('an item within a text, and the place behind it', async (t) => {
  t.strictSame(readItem('.a[name="x"].b', 2), { part: key({ name: 'x' }), end: 12 })
  t.strictSame(readItem('[3]', 0), { part: { kind: 'index', index: 3 }, end: 3 })
  t.match(readItem('[name=<nil>]', 0), { problem: /in brackets/ }, 'as Go writes what is none')
})

t.test('a long text takes no longer than its length', async (t) => {
  t.equal((parseFieldPath(`.a${'[0]'.repeat(340)}`) as FieldPath).parts.length, 341)
  t.match(parseFieldPath(`.a[name="${'\\"'.repeat(500)}`), { problem: /in brackets/ })
  t.match(parseFieldPath(`.a[${'a='.repeat(500)}`), { problem: /in brackets/ })
})
