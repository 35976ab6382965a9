import t from 'tap'
import type { FieldSet, ManagedEntry } from '../../../../../../src/agentk/modules/gitops/live/managed-fields.ts'
import { entriesOfOthers, OwnedFields, pathsOf } from '../../../../../../src/agentk/modules/gitops/live/owned-fields.ts'
import { entries, entry, isAdder, leaf, manager, ownEntry } from '../drift/managed.ts'

const names = (found: readonly ManagedEntry[]) => found.map((one) => one.manager)

t.test('owners of a field, of fields in it, and of what is around it', async (t) => {
  const owned = new OwnedFields(
    entries(
      entry('a', { 'f:spec': { 'f:x': leaf } }),
      entry('b', { 'f:spec': { 'f:x': { 'f:y': leaf }, 'f:l': { '.': leaf, 'k:{"name":"i"}': leaf } } }),
    ),
  )
  t.strictSame(names(owned.owners(['f:spec', 'f:x', 'f:y'])), ['a', 'b'])
  t.strictSame(names(owned.owners(['f:spec', 'f:x', 'f:z'])), ['a'])
  t.strictSame(names(owned.owners(['f:spec', 'f:l'])), ['b'])
  t.strictSame(names(owned.ownersOfWhole(['f:spec', 'f:l'])), [])
  t.strictSame(names(owned.ownersOfWhole(['f:spec', 'f:x'])), ['a'])
  t.strictSame(names(owned.owners(['f:data'])), [])
  t.strictSame(names(owned.owners([])), [])
})

t.test('fields that only some managers own: the outermost that they set, without metadata and status', async (t) => {
  const theirs = {
    'f:metadata': { 'f:labels': { 'f:theirs': leaf } },
    'f:spec': {
      'f:paused': leaf,
      'f:shared': leaf,
      'f:strategy': { 'f:type': leaf },
      'f:template': {
        'f:metadata': { 'f:annotations': { 'f:kubectl.kubernetes.io/restartedAt': leaf } },
        'f:spec': {
          'f:containers': {
            '.': leaf,
            'k:{"name":"side"}': { '.': leaf, 'f:name': leaf, 'f:image': leaf },
            'k:{"name":"web"}': { 'f:env': { '.': leaf, 'k:{"name":"X"}': { '.': leaf, 'f:name': leaf } } },
          },
        },
      },
    },
    'f:status': { 'f:replicas': leaf },
  }
  const ours = {
    'f:spec': {
      'f:template': {
        'f:spec': {
          'f:containers': { 'k:{"name":"web"}': { '.': leaf, 'f:env': { 'k:{"name":"A"}': leaf }, 'f:image': leaf } },
        },
      },
    },
  }
  const all = entries(
    entry('kubectl-edit', theirs),
    ownEntry(ours),
    entry('controller', { 'f:spec': { 'f:shared': leaf } }),
  )
  const adders = new Set(all.filter((one) => isAdder(String(one.manager))))
  const containers = ['f:spec', 'f:template', 'f:spec', 'f:containers']
  t.strictSame(new OwnedFields(all).onlyOf(adders), [
    ['f:spec', 'f:paused'],
    ['f:spec', 'f:strategy', 'f:type'],
    [...containers, 'k:{"name":"side"}'],
    [...containers, 'k:{"name":"web"}', 'f:env', 'k:{"name":"X"}'],
  ])
  const whole = entries(ownEntry({ 'f:spec': leaf }), entry('kubectl', { 'f:spec': { 'f:x': leaf } }))
  t.strictSame(new OwnedFields(whole).onlyOf(new Set(whole.slice(1))), [], 'another owns all around it')
})

t.test(
  'an apply without a time has set nothing: it names no field, and leaves those of others as they are',
  async (t) => {
    const spec = { 'f:paused': leaf, 'f:securityContext': leaf, 'f:selector': { '.': leaf, 'f:disk': leaf } }
    const agreed = entry('kubectl', { 'f:spec': spec }, { operation: 'Apply', time: undefined })
    const edit = { 'f:spec': { 'f:securityContext': { 'f:runAsUser': leaf }, 'f:selector': { 'f:disk': leaf } } }
    const found = (...all: readonly ManagedEntry[]) => new OwnedFields(all).onlyOf(new Set(all))
    t.strictSame(found(...entries(agreed)), [])
    t.strictSame(found(...entries(agreed, entry('kubectl-edit', edit))), [
      ['f:spec', 'f:securityContext', 'f:runAsUser'],
      ['f:spec', 'f:selector', 'f:disk'],
    ])
  },
)

t.test('entries of others: without the source as applier, without the status and its time', async (t) => {
  const revision = { 'f:metadata': { 'f:annotations': { 'f:revision': leaf } } }
  const all = entries(
    ownEntry({ 'f:a': leaf }),
    entry(manager, { 'f:b': leaf }),
    entry('one', { 'f:status': leaf }, { subresource: 'status' }),
    entry('two', { ...revision, 'f:status': leaf }, { subresource: 'status' }),
    entry('three', { 'f:status': leaf }),
  )
  t.strictSame(
    entriesOfOthers(all, manager).map((one) => [one.manager, one.time, one.fieldsV1]),
    [
      [manager, '2026-06-01T00:00:01Z', { 'f:b': leaf }],
      ['two', '', revision],
      ['three', '2026-06-01T00:00:01Z', { 'f:status': leaf }],
    ],
  )
})

t.test('paths of a set', async (t) => {
  const fields = { 'f:a': { '.': leaf, 'f:b': leaf }, 'f:c': { 'f:d': leaf } }
  t.strictSame(pathsOf(fields), [['f:a'], ['f:a', 'f:b'], ['f:c', 'f:d']])
  t.strictSame(pathsOf({}), [])
})

t.test('bad input: fields that are none, and forged depth', async (t) => {
  const odd = entries(entry('a', { 'f:x': null, 'f:y': 5, 'f:z': 'text' }))
  t.strictSame(names(new OwnedFields(odd).owners(['f:x'])), ['a'])
  const deep = Array.from({ length: 900 }).reduce<FieldSet>((inner) => ({ 'f:x': inner }), {})
  const owned = new OwnedFields(entries(entry('a', deep)))
  t.strictSame(names(owned.owners(Array(100).fill('f:x'))), ['a'])
  t.strictSame(names(owned.owners(Array(900).fill('f:x'))), ['a'], 'below the limit all is one field')
  t.strictSame(pathsOf(deep).length, 1)
})
