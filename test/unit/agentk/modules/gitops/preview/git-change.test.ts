import t from 'tap'
import { pathText } from '../../../../../../src/agentk/modules/gitops/live/managed-path.ts'
import type { FieldChange } from '../../../../../../src/agentk/modules/gitops/preview/field-change.ts'
import { gitChanges } from '../../../../../../src/agentk/modules/gitops/preview/git-change.ts'

/** Differences of two manifests, by Git alone. */

const textOf = ({ kind, path, before, after }: FieldChange) =>
  `${kind} ${pathText(path)} ${JSON.stringify(before) ?? '-'} -> ${JSON.stringify(after) ?? '-'}`
const changes = (base: object | undefined, next: object) =>
  gitChanges(base && { ...base }, { ...next })
    .map(textOf)
    .sort()

t.test('all fields of a new object but those that name it', (t) => {
  const object = {
    apiVersion: 'v1',
    kind: 'Service',
    metadata: { name: 'web', namespace: 'shop', labels: { app: 'web' } },
    spec: { ports: [{ port: 80 }], selector: {}, type: null },
  }
  t.strictSame(changes(undefined, object), [
    'added .metadata.labels.app - -> "web"',
    'added .spec.ports - -> [{"port":80}]',
    'added .spec.selector - -> {}',
  ])
  t.end()
})

t.test('maps by their fields, lists by the names of their items', (t) => {
  const base = { spec: { a: 1, b: 2, list: [{ name: 'x', image: '1' }, { name: 'y' }], plain: [1, 2] } }
  const next = { spec: { a: 3, c: null, list: [{ name: 'z' }, { name: 'x', image: '2' }], plain: [2, 1] } }
  t.strictSame(changes(base, next), [
    'added .spec.list[name="z"].name - -> "z"',
    'changed .spec.a 1 -> 3',
    'changed .spec.list[name="x"].image "1" -> "2"',
    'changed .spec.plain [1,2] -> [2,1]',
    'missing .spec.b 2 -> -',
    'missing .spec.list[name="y"].name "y" -> -',
  ])
  t.strictSame(changes({ list: [{ name: 'x' }, { name: 'y' }] }, { list: [{ name: 'y' }, { name: 'x' }] }), [
    'reordered .list ["x","y"] -> ["y","x"]',
  ])
  t.end()
})

t.test('a null is no value', (t) => {
  t.strictSame(changes({ spec: { a: 1 } }, { spec: { a: 1, b: null, c: { d: null } } }), [])
  t.strictSame(changes({ spec: { a: null } }, { spec: {} }), [])
  t.end()
})

t.test('each item of a wide list is read a few times, so that tunnels do not wait for it', async (t) => {
  const count = 2000
  let reads = 0
  const wide = (value: number) =>
    Array.from({ length: count }, (_, i) => ({
      get name() {
        reads += 1
        return `item-${i}`
      },
      value,
    }))
  t.equal(gitChanges({ list: wide(1) }, { list: wide(2) }).length, count)
  t.ok(reads < 20 * count, `${reads} reads of ${count} items`)
})
