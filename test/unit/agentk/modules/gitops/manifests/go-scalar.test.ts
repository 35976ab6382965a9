import { spawnSync } from 'node:child_process'
import { existsSync } from 'node:fs'
import { join } from 'node:path'
import t from 'tap'
import { goScalar } from '../../../../../../src/agentk/modules/gitops/manifests/go-scalar.ts'
import { readFiles } from '../../../../../../src/agentk/modules/gitops/manifests/read-yaml.ts'

/** scalars and their values by resolve.go of Go's yaml.v2 */
const known: readonly (readonly [string, ReturnType<typeof goScalar>])[] = [
  ['y', true],
  ['On', true],
  ['yEs', 'yEs'],
  ['NO', false],
  ['off', false],
  ['~', null],
  ['', null],
  ['nUll', 'nUll'],
  ['0644', 420],
  ['0o17', 15],
  ['0O7', 7],
  ['08', 8],
  ['0x1F', 31],
  ['-0x10', -16],
  ['0b101', 5],
  ['-0b11', -3],
  ['0b12', '0b12'],
  ['+5', 5],
  ['1_000', 1000],
  ['1__0', 10],
  ['_1', '_1'],
  ['0_7', 7],
  ['0x', '0x'],
  ['12:30:45', '12:30:45'],
  ['-1:30', '-1:30'],
  ['2020-01-02', '2020-01-02'],
  ['2001-12-14t21:59:43.10-05:00', '2001-12-14t21:59:43.10-05:00'],
  ['1.0', 1],
  ['1e3', 1000],
  ['.5', 0.5],
  ['.5_0', 0.5],
  ['._5', '._5'],
  ['.5__0', '.5__0'],
  ['.5_', '.5_'],
  ['.5e1_0', 5e9],
  ['+._5', 0.5],
  ['+.5', 0.5],
  ['5.', 5],
  ['1E+2', 100],
  ['0.1e-7', 1e-8],
  ['1e', '1e'],
  ['1e400', '1e400'],
  ['-0', 0],
  ['-0.0', 0],
  ['1.2.3', '1.2.3'],
  ['9007199254740991', 9007199254740991],
  ['0x1FFFFFFFFFFFFF', 9007199254740991],
  ['9007199254740993', 9007199254740993n],
  ['-9223372036854775808', -9223372036854775808n],
  ['9223372036854775808', 2 ** 63],
  ['0xFFFFFFFFFFFFFFFF', 2 ** 64],
  ['0x1FFFFFFFFFFFFFFFF', '0x1FFFFFFFFFFFFFFFF'],
  ['123456789012345678901234567890', 1.2345678901234568e29],
  ['-99999999999999999999', -1e20],
  ['=', '='],
  ['-.inf0', '-.inf0'],
  ['.', '.'],
]

t.test('plain scalars', async (t) => {
  for (const [text, value] of known) t.equal(goScalar(text), value, text)
  t.equal(goScalar('.inf'), Number.POSITIVE_INFINITY)
  t.equal(goScalar('-.INF'), Number.NEGATIVE_INFINITY)
  t.ok(Number.isNaN(goScalar('.NaN')))
  t.equal(goScalar(`0b${'1'.repeat(10_000)}`), `0b${'1'.repeat(10_000)}`, 'no whole number is built from a long text')
})

const kubectl = join(process.env.KUBEBUILDER_ASSETS ?? '', 'kubectl')
const withKubectl = existsSync(kubectl) ? {} : { skip: 'KUBEBUILDER_ASSETS has no kubectl' }

t.test('kubectl reads the same', withKubectl, async (t) => {
  const scalars = known.flatMap(([text, value]) => (typeof value === 'bigint' || value === null ? [] : [text]))
  const quoted = ['"0644"', "'y'", '"\\u00e9\\n"', "'it''s'", '!!str 12', '!!int "5"', '!!float 3', '!foo 5', '! 12']
  const more = ['!!binary aGVsbG8=', '!!bool "yes"', '!foo {x: [on]}', 'a#b', 'http://a:80', '[a, [b], {c: off}]']
  const blocks = ['|\n    a\n     b\n\n    c\n', '>-\n    a\n    b\n\n    c\n', '|+\n    a\n\n', 'a\n    b\n\n    c\n']
  const keys = ['on: 1', '0x10: 2', '2020-01-01: 3', '"y": 4', 'Off: 5', '? x\n  : 6', '<<: {merged: 7, on: 8}']
  const text = [
    'apiVersion: v1',
    'kind: ConfigMap',
    'metadata: {name: scalars, labels: {a: b}}',
    'data:',
    ...[...scalars, ...quoted, ...more, ...blocks].map((scalar, at) => `  k${at}: ${scalar}`),
    ...keys.map((key) => `  ${key}`),
    '',
  ].join('\n')
  const { stdout, stderr } = spawnSync(kubectl, ['label', '--local', '-f', '-', 'a=b', '--overwrite', '-o', 'json'], {
    input: text,
    encoding: 'utf8',
    env: { KUBECONFIG: '/dev/null' },
  })
  t.equal(stderr, '')
  const { documents, problems } = readFiles([{ path: 'a.yaml', data: Buffer.from(text) }])
  t.strictSame(problems, [])
  t.strictSame(documents[0]?.object, JSON.parse(stdout))
})
