import t from 'tap'
import { parse } from 'yaml'
import { YamlEdit } from '../../../../../src/kas/cli/kubeconfig/yaml-edit.ts'

const item = { name: 'new', context: { cluster: 'c', user: 'u' } }

/** Files, with comments and values that an edit keeps. */
const files: Readonly<Record<string, string>> = {
  'a block at the margin': '# top\na:\n- name: x # one\n# next\nb: {k:   v}\n',
  'a block further in': 'a:\n    # one\n    - name: x\n\n      k: |\n        text\n\nb: 1\n# end\n',
  'the last key before the end of the document': 'b: 1\na: []\n...\n',
  'the last key, without a line end': 'b: 1\na:\n- name: x',
  'an anchor before the item': 'a:\n- &x\n  name: x\nb: [*x]\n',
  'a hyphen on a line of its own': 'a:\n-\n  name: x\nb: 1\n',
  'a key without a value last': 'a:\n- name: x\n  context: # nothing\nb: 1\n',
  'a text over two lines': 'a:\n- name: x\n  k: one\n    two\n# c\nb: 1\n',
  'line ends of Windows': 'a:\r\n- name: x\r\nb: 1\r\n',
  'a key that is new': 'b: 1 # one\n',
  'an empty list with a comment': 'x: 1\na: [] # none yet\nb: 2\n',
  'a key without a value': 'x: 1\na: # none yet\nb: 2\n',
  'a list in brackets': 'a: [{name: x}, ] # c\nb: 1\n',
  'no text at all': '',
  'comments alone': '# nobody\n',
  'an empty block': '{}\n',
}

const commentsOf = (text: string) => [...text.matchAll(/#[^\r\n]*/g)].map(([comment]) => comment)

for (const [name, text] of Object.entries(files)) {
  t.test(`an item is added, the rest stays: ${name}`, async (t) => {
    const edit = new YamlEdit('f', text)
    edit.append('a', item)
    const known = parse(text) ?? {}
    t.same(parse(edit.text), { ...known, a: [...(known.a ?? []), item] })
    t.same(parse(edit.text), edit.tree)
    t.strictSame(commentsOf(edit.text), commentsOf(text))
    if (text.includes('\r')) t.notMatch(edit.text.replaceAll('\r\n', ''), /\n/)
  })
}

t.test('a file of kubectl keeps its layout', async (t) => {
  const text =
    'apiVersion: v1\nclusters:\n- cluster:\n    server: https://a\n  name: a\nkind: Config\npreferences: {}\nusers: []\n'
  const edit = new YamlEdit('f', text)
  edit.append('users', { name: 'u', user: { token: 't' } })
  t.equal(edit.text, text.replace('users: []', 'users:\n- name: u\n  user:\n    token: t'))
})

t.test('data of base64 stays on one line', async (t) => {
  const data = 'A'.repeat(2000)
  const edit = new YamlEdit('f', `a: ${data}\n`)
  edit.set(['b'], data)
  t.equal(edit.text, `a: ${data}\nb: ${data}\n`)
})

t.test('JSON stays JSON', async (t) => {
  const edit = new YamlEdit('f', '{\n  "kind": "Config",\n  "a": [\n    {"name": "x"}\n  ],\n  "c": null\n}\n')
  edit.append('a', { name: 'y' })
  edit.append('b', { name: 'z' })
  edit.append('c', { name: 'w' })
  edit.set(['kind'], 'Other')
  t.strictSame(JSON.parse(edit.text), {
    kind: 'Other',
    a: [{ name: 'x' }, { name: 'y' }],
    c: [{ name: 'w' }],
    b: [{ name: 'z' }],
  })
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
  t.strictSame(parse(edit.text), {
    a: [
      { name: 'x', user: { token: 'pat:1:new', more: 'two words: and a colon', namespace: 'web' } },
      { name: 'y', user: { token: 'pat:2:new', namespace: 'web' } },
    ],
    current: 'it',
  })
  t.match(edit.text, /^- name: x # first\n {2}user:\n {4}token: pat:1:new # secret\n/m)
})

t.test('a text in a block, and a key without a value, are replaced', async (t) => {
  const edit = new YamlEdit('f', 'a: |\n  one\n  two\nb:\nc: 1\n')
  edit.set(['a'], 'x')
  edit.set(['b'], 'y')
  t.strictSame(parse(edit.text), { a: 'x', b: 'y', c: 1 })
})

t.test('an edit that would change more is refused, and the file stays', async (t) => {
  const refused: readonly (readonly [text: string, change: (edit: YamlEdit) => void])[] = [
    ['x: &l [1]\na: *l\n', (edit) => edit.append('a', 2)],
    ['x: &m {k: 1}\na: *m\n', (edit) => edit.set(['a', 'k'], 2)],
    ['a: text\n', (edit) => edit.append('a', 1)],
    ['a: &s one\nb: *s\n', (edit) => edit.set(['a'], 'two')],
  ]
  for (const [text, change] of refused) {
    const edit = new YamlEdit('f', text)
    t.throws(() => change(edit), /^f: [\w.]+: it is written in a way that cannot be changed in place/, text)
    t.equal(edit.text, text)
  }
})

t.test('what is no YAML is refused with its line', async (t) => {
  t.throws(() => new YamlEdit('f', 'a: 1\nb: [\n'), /^f: line \d: not YAML: /)
  t.throws(() => new YamlEdit('f', 'a: 1\n---\nb: 1\n'), /more than one document/)
  t.throws(() => new YamlEdit('f', '- a\n'), /^f: not a block of keys/)
  t.throws(() => new YamlEdit('f', 'text\n'), /^f: not a block of keys/)
  t.throws(() => new YamlEdit('f', 'a: 1\na: 2\n'), /Map keys must be unique/)
})
