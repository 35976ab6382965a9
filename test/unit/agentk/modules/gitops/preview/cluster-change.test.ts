import t from 'tap'
import { pathText } from '../../../../../../src/agentk/modules/gitops/live/managed-path.ts'
import {
  clusterChanges,
  takenFields,
  withoutDrift,
} from '../../../../../../src/agentk/modules/gitops/preview/cluster-change.ts'
import type { FieldChange } from '../../../../../../src/agentk/modules/gitops/preview/field-change.ts'

/** Fields of a live object that a change makes other, by the answer to a dry run. */

const manager = 'agentk-42-7'
const textOf = ({ kind, path, before, after }: FieldChange) =>
  `${kind} ${pathText(path)} ${JSON.stringify(before) ?? '-'} -> ${JSON.stringify(after) ?? '-'}`

/** An object with owners of its data: by manager, names of keys. */
const mapOf = (data: Record<string, string>, owners: Record<string, readonly string[]>, annotations: object = {}) => ({
  apiVersion: 'v1',
  kind: 'ConfigMap',
  metadata: {
    name: 'map',
    annotations,
    managedFields: Object.entries(owners).map(([name, keys]) => ({
      manager: name,
      operation: name === manager ? 'Apply' : 'Update',
      fieldsType: 'FieldsV1',
      fieldsV1: {
        'f:metadata': { 'f:annotations': Object.fromEntries(Object.keys(annotations).map((key) => [`f:${key}`, {}])) },
        ...(keys.length > 0 && { 'f:data': Object.fromEntries(keys.map((key) => [`f:${key}`, {}])) }),
      },
    })),
  },
  data,
})
const gitOf = (data: object) => ({ apiVersion: 'v1', kind: 'ConfigMap', metadata: { name: 'map' }, data })

t.test('what Git has as before is no change, whatever the cluster has', (t) => {
  const live = mapOf({ a: 'by hand', b: 'old', c: '3' }, { [manager]: ['a', 'b', 'c'] })
  const dry = mapOf({ a: '1', b: 'new' }, { [manager]: ['a', 'b'] })
  const base = gitOf({ a: '1', b: 'old', c: '3' })
  const found = clusterChanges({ base, next: gitOf({ a: '1', b: 'new' }), dry, live, manager })
  t.strictSame(found.map(textOf).sort(), ['changed .data.b "old" -> "new"', 'missing .data.c "3" -> -'])
  const all = clusterChanges({ base: undefined, next: gitOf({ a: '1', b: 'new' }), dry, live, manager })
  t.equal(all.length, 3, 'without a base each difference counts')
  t.end()
})

t.test('a null counts where the API server stores another value for it', (t) => {
  const live = mapOf({ a: '' }, { [manager]: ['a'] })
  const dry = mapOf({}, { [manager]: [] })
  const found = clusterChanges({ base: gitOf({ a: null }), next: gitOf({}), dry, live, manager })
  t.strictSame(found.map(textOf), ['missing .data.a "" -> -'])
  t.end()
})

t.test('marks of agentk are no change', (t) => {
  const marks = (digest: string) => ({ 'agent.gitlab.com/digest': digest, 'config.k8s.io/owning-inventory': '42-7' })
  const [live, dry] = ['one', 'two'].map((digest) => mapOf({}, { [manager]: [] }, marks(digest))) as [object, object]
  const objects = { dry: { ...dry }, live: { ...live } }
  t.strictSame(clusterChanges({ base: gitOf({}), next: gitOf({}), ...objects, manager }), [])
  t.end()
})

t.test('fields of an earlier manager leave, but those that others own as well stay', (t) => {
  const live = mapOf({ a: '1', b: '2', c: '3' }, { old: ['a', 'b', 'c'], other: ['c'] })
  const dry = mapOf({ a: '1', b: '2', c: '3' }, { [manager]: ['a'], old: ['a', 'b', 'c'], other: ['c'] })
  t.strictSame(takenFields({ dry, live, manager }, ['old']).map(textOf), ['missing .data.b "2" -> -'])
  t.strictSame(takenFields({ dry, live, manager }, []), [])
  t.end()
})

const change = (name: string) => ({ path: ['f:spec', `f:${name}`], kind: 'changed' as const, before: 1, after: 2 })

t.test('without an earlier manifest, drift is apart, and hides no change of Git', async (t) => {
  const changes = [change('image'), change('replicas')]
  t.strictSame(withoutDrift(changes, new Set()), changes)
  t.strictSame(withoutDrift(changes, new Set(['.spec.replicas'])), [change('image')])
  t.strictSame(withoutDrift([change('image')], new Set(['.spec.image'])), [change('image')], 'the change is there')
})
