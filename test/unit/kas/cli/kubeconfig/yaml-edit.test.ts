import t from 'tap'
import { parse } from 'yaml'
import { YamlEdit } from '../../../../../src/kas/cli/kubeconfig/yaml-edit.ts'

const item = { name: 'new', context: { cluster: 'c', user: 'u' } }

/** Text before and after the place of an edit. The edit leaves it unchanged. */
const lists: Readonly<Record<string, readonly [before: string, after: string]>> = {
  'a block at the margin': ['# top\na:\n- name: x # one\n', '# next\nb: {k:   v}\n'],
  'a block further in': ['a:\n    # one\n    - name: x\n\n      k: |\n        text\n', '\nb: 1\n# end\n'],
  'the last key before the end of the document': ['b: 1\n', '...\n'],
  'the last key, without a line end': ['b: 1\na:\n- name: x', ''],
  'an anchor before the item': ['a:\n- &x\n  name: x\n', 'b: [*x]\n'],
  'a hyphen on a line of its own': ['a:\n-\n  name: x\n', 'b: 1\n'],
  'a key without a value last': ['a:\n- name: x\n  context: # nothing\n', 'b: 1\n'],
  'a text over two lines': ['a:\n- name: x\n  k: one\n    two\n', '# c\nb: 1\n'],
  'line ends of Windows': ['a:\r\n- name: x\r\n', 'b: 1\r\n'],
  'a key that is new': ['b: 1 # one\n', ''],
  'no text at all': ['', ''],
  'comments alone': ['# nobody\n', ''],
}

for (const [name, [before, after]] of Object.entries(lists)) {
  t.test(`an item is added, the rest stays: ${name}`, async (t) => {
    const edit = new YamlEdit('f', before + after)
    edit.append('a', item)
    t.ok(edit.text.startsWith(before), edit.text)
    t.ok(edit.text.endsWith(after), edit.text)
    const known = parse(before + after) ?? {}
    t.same(parse(edit.text), { ...known, a: [...(known.a ?? []), item] })
    t.notMatch(edit.text.replaceAll('\r\n', ''), /\r/)
    if (before.includes('\r')) t.notMatch(edit.text.replaceAll('\r\n', ''), /\n/)
  })
}

t.test('an empty list is filled, with its comment', async (t) => {
  for (const empty of [' []', ' null', '', ' [ ]']) {
    const edit = new YamlEdit('f', `x: 1\na:${empty} # none yet\nb: 2\n`)
    edit.append('a', item)
    t.match(edit.text, /^x: 1\na: *# none yet\n- name: new\n {2}context:\n {4}cluster: c\n {4}user: u\nb: 2\n$/)
  }
})

t.test('lists in brackets, and JSON', async (t) => {
  const flow = new YamlEdit('f', 'a: [{name: x}, ] # c\nb: 1\n')
  flow.append('a', { name: 'y' })
  t.equal(flow.text, 'a: [{name: x}, {"name":"y"} ] # c\nb: 1\n')
  const json = new YamlEdit('f', '{\n  "kind": "Config",\n  "a": [\n    {"name": "x"}\n  ],\n  "c": null\n}\n')
  json.append('a', { name: 'y' })
  json.append('b', { name: 'z' })
  json.append('c', { name: 'w' })
  json.set(['kind'], 'Other')
  t.equal(
    json.text,
    '{\n  "kind": "Other",\n  "a": [\n    {"name": "x"}, {"name":"y"}\n  ],\n  "c": [{"name":"w"}], "b": [{"name":"z"}]\n}\n',
  )
  t.same(JSON.parse(json.text).a, [{ name: 'x' }, { name: 'y' }])
})

t.test('a value is set in its place', async (t) => {
  const text =
    'a:\n- name: x # first\n  user:\n    token: old # secret\n    more: "q"\n- name: y\n  user: {token: old}\n'
  const edit = new YamlEdit('f', text)
  edit.set(['a', 0, 'user', 'token'], 'pat:1:new')
  edit.set(['a', 0, 'user', 'more'], 'two words: and a colon')
  edit.set(['a', 1, 'user', 'token'], 'pat:2:new')
  edit.set(['a', 1, 'user', 'namespace'], 'web')
  edit.set(['a', 0, 'user', 'namespace'], 'web')
  edit.set(['current'], '')
  edit.set(['current'], 'it')
  t.equal(
    edit.text,
    'a:\n- name: x # first\n  user:\n    token: pat:1:new # secret\n    more: "two words: and a colon"\n    namespace: web\n- name: y\n  user: {token: pat:2:new, "namespace": "web"}\ncurrent: "it"\n',
  )
})

t.test('a text in a block, and a key without a value, are replaced', async (t) => {
  const edit = new YamlEdit('f', 'a: |\n  one\n  two\nb:\nc: 1\n')
  edit.set(['a'], 'x')
  edit.set(['b'], 'y')
  t.equal(edit.text, 'a: x\nb: y\nc: 1\n')
})

t.test('what cannot be changed in place is refused, and stays', async (t) => {
  const refused: readonly (readonly [text: string, change: (edit: YamlEdit) => void])[] = [
    ['x: &l [1]\na: *l\n', (edit) => edit.append('a', 2)],
    ['x: &m {k: 1}\na: *m\n', (edit) => edit.set(['a', 'k'], 2)],
    ['x: &s one\na: *s\n', (edit) => edit.set(['a'], 'two')],
    ['a: {k: {v: 1}}\n', (edit) => edit.set(['a', 'k'], 'x')],
    ['a: text\n', (edit) => edit.append('a', 1)],
    ['a: [1 # one\n]\n', (edit) => edit.append('a', 2)],
  ]
  for (const [text, change] of refused) {
    const edit = new YamlEdit('f', text)
    t.throws(() => change(edit), /^f(: [\w.]+)?: it is written in a way that cannot be changed in place/, text)
    t.equal(edit.text, text)
  }
})

t.test('an anchor is not lost for those who name it', async (t) => {
  const edit = new YamlEdit('f', 'a: &s one\nb: *s\n')
  t.throws(() => edit.set(['a'], 'two'), /cannot be changed in place/)
})

t.test('what is no YAML is refused with its line', async (t) => {
  t.throws(() => new YamlEdit('f', 'a: 1\nb: [\n'), /^f: line \d: not YAML: /)
  t.throws(() => new YamlEdit('f', 'a: 1\n---\nb: 1\n'), /more than one document/)
  t.throws(() => new YamlEdit('f', '- a\n'), /^f: not a block of keys/)
  t.throws(() => new YamlEdit('f', 'text\n'), /^f: not a block of keys/)
  t.throws(() => new YamlEdit('f', 'a: 1\na: 2\n'), /Map keys must be unique/)
})
