import t from 'tap'
import { changesOfLive, differencesOf } from '../../../../../../src/agentk/modules/gitops/drift/differences.ts'
import type { FieldSet } from '../../../../../../src/agentk/modules/gitops/live/managed-fields.ts'
import { pathText } from '../../../../../../src/agentk/modules/gitops/live/managed-path.ts'
import { leaf } from './managed.ts'

/** @returns path, kind, Git's value, live value */
const compare = (fields: FieldSet, dry: object, live: object) =>
  differencesOf({ dry: dry as never, live: live as never }, fields).map(({ path, kind, before, after }) => [
    pathText(path),
    kind,
    before,
    after,
  ])

t.test('only fields that the source applies are compared', async (t) => {
  const fields = { 'f:spec': { 'f:a': leaf, 'f:b': { 'f:c': leaf } } }
  const dry = { spec: { a: 1, b: { c: 'x' }, other: 1 } }
  t.strictSame(compare(fields, dry, { spec: { a: 1, b: { c: 'x', d: 1 }, other: 2 }, status: {} }), [])
  t.strictSame(compare(fields, dry, { spec: { a: 2, b: { c: null } } }), [
    ['.spec.a', 'changed', 1, 2],
    ['.spec.b.c', 'missing', 'x', undefined],
  ])
  const all = [
    ['.spec.a', 'missing', 1, undefined],
    ['.spec.b.c', 'missing', 'x', undefined],
  ]
  t.strictSame(compare(fields, dry, {}), all, 'as the API server names fields')
  t.strictSame(compare(fields, dry, { spec: null }), all)
  const itself = { 'f:spec': { '.': leaf, ...fields['f:spec'] } }
  t.strictSame(compare(itself, dry, {}), [['.spec', 'missing', dry.spec, undefined]], 'Git sets the map itself')
  t.strictSame(compare(fields, dry, { spec: { a: 1, b: 'text' } }), [['.spec.b', 'changed', { c: 'x' }, 'text']])
  t.strictSame(compare(fields, { spec: { a: 1 } }, { spec: { a: 1, b: { c: 1 } } }), [
    ['.spec.b.c', 'changed', undefined, 1],
  ])
})

t.test('values that are one: a list or a map without keys of its own', async (t) => {
  const fields = { 'f:spec': { 'f:args': leaf, 'f:selector': leaf, 'f:size': leaf } }
  const dry = { spec: { args: ['a', 'b', 'a'], selector: { x: '1', y: '2' }, size: 1 } }
  t.strictSame(compare(fields, dry, { spec: { ...dry.spec, selector: { y: '2', x: '1' } } }), [])
  t.strictSame(compare(fields, dry, { spec: { args: ['a', 'a', 'b'], selector: { x: '1' }, size: '1' } }), [
    ['.spec.args', 'reordered', dry.spec.args, ['a', 'a', 'b']],
    ['.spec.selector', 'changed', dry.spec.selector, { x: '1' }],
    ['.spec.size', 'changed', 1, '1'],
  ])
  t.strictSame(compare(fields, dry, { spec: { ...dry.spec, args: ['a', 'b', 'b'] } }), [
    ['.spec.args', 'changed', dry.spec.args, ['a', 'b', 'b']],
  ])
})

const item = (name: string) => ({ [`k:{"name":"${name}"}`]: { '.': leaf, 'f:name': leaf, 'f:value': leaf } })
const env = (...names: string[]) => names.map((name) => ({ name, value: name.toLowerCase() }))

t.test('lists by key: items of others do not count, order of ours does', async (t) => {
  const fields = { 'f:env': { ...item('A'), ...item('B'), ...item('C') } }
  const dry = { env: env('A', 'B', 'C') }
  t.strictSame(compare(fields, dry, { env: env('A', 'X', 'B', 'C', 'Y') }), [])
  t.strictSame(compare(fields, dry, { env: env('B', 'X', 'A', 'C') }), [
    ['.env', 'reordered', [{ name: 'A' }, { name: 'B' }, { name: 'C' }], [{ name: 'B' }, { name: 'A' }, { name: 'C' }]],
  ])
  t.strictSame(compare(fields, dry, { env: env('C', 'A') }), [
    ['.env[name="B"]', 'missing', { name: 'B', value: 'b' }, undefined],
    ['.env', 'reordered', [{ name: 'A' }, { name: 'C' }], [{ name: 'C' }, { name: 'A' }]],
  ])
  const twice = { env: [...env('A', 'B', 'C'), { name: 'A', value: '9' }] }
  t.strictSame(compare(fields, dry, twice), [
    [
      '.env[name="A"]',
      'changed',
      { name: 'A', value: 'a' },
      [
        { name: 'A', value: 'a' },
        { name: 'A', value: '9' },
      ],
    ],
  ])
  t.strictSame(compare(fields, twice, twice), [], 'Git has both')
})

t.test('sets: an item is there or is not, in any order', async (t) => {
  const fields = { 'f:s': { 'v:"x"': leaf, 'v:"y"': leaf } }
  t.strictSame(compare(fields, { s: ['x', 'y'] }, { s: ['y', 'z', 'x'] }), [])
  t.strictSame(compare(fields, { s: ['x', 'y'] }, { s: ['y'] }), [['.s[="x"]', 'missing', 'x', undefined]])
})

t.test('many items take no quadratic work', async (t) => {
  const count = 20_000
  const list = Array.from({ length: count }, (_, i) => ({ name: `n${i}`, value: i }))
  const fields = { 'f:l': Object.assign({}, ...list.map(({ name }) => item(name))) }
  const live = { l: list.map((one) => ({ ...one, value: one.value + 1 })).reverse() }
  const began = process.cpuUsage()
  const found = compare(fields, { l: list }, live)
  t.equal(found.length, count + 1)
  t.strictSame(found.at(-1)?.slice(0, 2), ['.l', 'reordered'])
  const sent = { l: list.map(({ name, value }) => ({ name, value })) }
  const differences = differencesOf({ dry: { l: list }, live } as never, fields)
  t.equal(changesOfLive(differences, sent, () => false).ofLive.length, count + 1)
  const { user } = process.cpuUsage(began)
  t.ok(user < 20_000_000, `${user} us`)
})

t.test('a deep object is compared to the end', async (t) => {
  const deep = (value: number) => Array.from({ length: 300 }).reduce<object>((inner) => ({ x: inner }), { y: value })
  const fields = Array.from({ length: 300 }).reduce<FieldSet>((inner) => ({ 'f:x': inner }), { 'f:y': leaf })
  t.strictSame(compare(fields, deep(1), deep(1)), [])
  const [[path = '', kind] = []] = compare(fields, deep(1), deep(2)) as [string, string][]
  t.equal(kind, 'changed')
  t.equal(path.length, 200, 'the path ends at the limit')
})

t.test('a difference is of the dry run if the live value is the one that apply sends', async (t) => {
  const fields = {
    'f:image': leaf,
    'f:cpu': leaf,
    'f:label': leaf,
    'f:replicas': leaf,
    'f:env': { ...item('A'), ...item('B') },
    'f:pod': { 'f:x': leaf },
  }
  const sent = { image: 'nginx', cpu: '1000m', label: 'a', replicas: 2, env: env('A', 'B'), pod: { x: 1 } }
  const split = (dry: object, live: object, isAsApplied: boolean) => {
    const all = differencesOf({ dry: dry as never, live: live as never }, fields)
    const { ofLive, ofDryRun } = changesOfLive(all, sent, () => isAsApplied)
    return [ofLive, ofDryRun].map((some) => some.map(({ path }) => pathText(path)))
  }
  const applied = { ...sent, cpu: '1' }
  const rewritten = { ...applied, image: 'ecr/nginx', label: undefined, env: env('B', 'A') }
  t.strictSame(split(rewritten, applied, true), [[], ['.image', '.label', '.env']], 'a webhook came later')
  t.strictSame(split(rewritten, applied, false), [[], ['.image', '.label', '.env']])
  const changed = { ...applied, replicas: 3, env: env('B', 'A'), pod: undefined }
  t.strictSame(split(applied, changed, true), [['.replicas', '.env', '.pod.x'], []], 'a forged entry hides nothing')
  t.strictSame(split(rewritten, { ...applied, replicas: 3 }, true), [['.replicas'], ['.image', '.label', '.env']])
  t.strictSame(split({ ...applied, cpu: '2' }, applied, true), [[], ['.cpu']], 'spelt otherwise: the owners decide')
  t.strictSame(split(applied, { ...applied, cpu: '2' }, false), [['.cpu'], []])
})
