import { spawnSync } from 'node:child_process'
import { existsSync } from 'node:fs'
import { join } from 'node:path'
import t from 'tap'
import { readFiles } from '../../../../../../src/agentk/modules/gitops/manifests/read-yaml.ts'

/** Colons inside brackets: agentk reads them as kubectl does. */

const kubectl = join(process.env.KUBEBUILDER_ASSETS ?? '', 'kubectl')
const withKubectl = existsSync(kubectl) ? {} : { skip: 'KUBEBUILDER_ASSETS has no kubectl' }
const head = 'apiVersion: v1\nkind: ConfigMap\nmetadata: { name: a }\ndata:\n  x: '

const expected: Readonly<Record<string, unknown>> = {
  '[a::]': ['a::'],
  '[001:db8::]': ['001:db8::'],
  '[a:]': ['a:'],
  '[a:, b]': ['a:', 'b'],
  '[a:,b]': ['a:', 'b'],
  '[a: ]': [{ a: null }],
  '[a:b]': ['a:b'],
  '[http://x]': ['http://x'],
  '{a:}': { 'a:': null },
  '{a:, b: 1}': { 'a:': null, b: 1 },
  '{a:b}': { 'a:b': null },
  '{yes:, 1:}': { 'yes:': null, '1:': null },
  '{"a":[1]}': { a: [1] },
  "{'a':1}": { a: 1 },
  '[{a:}, [b:]]': [{ 'a:': null }, ['b:']],
}

t.test('a colon that no space follows is part of the text', async (t) => {
  for (const [text, value] of Object.entries(expected)) {
    const { documents, problems } = readFiles([{ path: 'a.yaml', data: Buffer.from(`${head}${text}\n`) }])
    t.strictSame(problems, [], text)
    t.strictSame((documents[0]?.object.data as { x?: unknown } | undefined)?.x, value, text)
  }
  for (const text of ['{a:[1]}', '[a:{b: 1}]']) {
    const { problems } = readFiles([{ path: 'a.yaml', data: Buffer.from(`${head}${text}\n`) }])
    t.match(problems, [{ line: 5, text: /a space is to follow/ }], text)
  }
})

t.test('kubectl reads the same', withKubectl, async (t) => {
  const input = Object.keys(expected)
    .map((text) => `${head}${text}\n`)
    .join('---\n')
  const { stdout, stderr } = spawnSync(kubectl, ['label', '--local', '-f', '-', 'a=b', '--overwrite', '-o', 'json'], {
    input,
    encoding: 'utf8',
    env: { KUBECONFIG: '/dev/null' },
  })
  t.equal(stderr, '')
  const theirs = stdout.split(/^(?=\{$)/m).map((text) => JSON.parse(text).data.x)
  t.strictSame(theirs, Object.values(expected))
})
