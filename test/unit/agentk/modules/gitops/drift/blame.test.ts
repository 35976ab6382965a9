import t from 'tap'
import { blame } from '../../../../../../src/agentk/modules/gitops/drift/blame.ts'
import type { DifferenceKind } from '../../../../../../src/agentk/modules/gitops/finding.ts'
import { OwnedFields } from '../../../../../../src/agentk/modules/gitops/live/owned-fields.ts'
import { type Entry, entries, entry, leaf, manager, ownEntry } from './managed.ts'

const path = ['f:data', 'f:a']
const fields = { 'f:data': { 'f:a': leaf } }
const apply = { operation: 'Apply' }
const at = (second: number) => ({ time: `2026-06-01T00:00:0${second}Z` })

const by = (managedFields: readonly Entry[], kind: DifferenceKind = 'changed', where: readonly string[] = path) => {
  const difference = { path: where, kind, before: 1, after: 2 }
  const found = blame(new OwnedFields(entries(...managedFields)), difference, manager)
  return found === 'unknown' ? found : found.manager
}

t.test('the owner of a value has set it', async (t) => {
  const all = [ownEntry({ 'f:data': { 'f:b': leaf } }), entry('ed', fields, { ...at(3), subresource: 'scale' })]
  t.strictSame(blame(new OwnedFields(entries(...all)), { path, kind: 'changed', before: 1, after: 2 }, manager), {
    manager: 'ed',
    operation: 'Update',
    subresource: 'scale',
    time: '2026-06-01T00:00:03Z',
  })
  t.equal(by([entry('ed', { 'f:data': leaf })]), 'ed', 'it owns all around it')
  t.equal(by([entry('ed', { 'f:data': { 'f:a': { 'f:x': leaf } } })]), 'ed', 'it owns a part')
  t.equal(by([entry('ed', fields)], 'added'), 'ed')
  t.equal(by([entry('ed', { 'f:data': { 'f:b': leaf } })]), 'unknown')
  t.equal(by([]), 'unknown')
})

t.test('nobody is named for what FieldsV1 does not record', async (t) => {
  for (const kind of ['missing', 'gone'] as const) t.equal(by([entry('ed', fields)], kind), 'unknown', kind)
  const list = { 'f:data': { 'f:a': { '.': leaf, 'k:{"name":"x"}': leaf } } }
  t.equal(by([entry('ed', list)], 'reordered'), 'unknown', 'items do not have their order')
  t.equal(by([entry('ed', fields)], 'reordered'), 'ed', 'a list without keys has one owner')
  for (const name of ['ancient-changes', 'before-first-apply', '']) t.equal(by([entry(name, fields)]), 'unknown', name)
  t.equal(by([entry(manager, fields)]), 'unknown', 'our own manager')
  t.equal(by([ownEntry(fields)]), 'unknown')
  t.equal(by([entry(manager, fields, { subresource: 'status' })]), manager, 'a claim of somebody else')
})

t.test('of several owners: who updated it; among appliers only one with a time', async (t) => {
  const noTime = { ...apply, time: undefined }
  t.equal(by([entry('first', fields, at(1)), entry('second', fields, { ...apply, ...at(3) })]), 'first')
  t.equal(by([entry('first', fields, at(1)), entry('second', fields, noTime)]), 'first')
  t.equal(by([entry('first', fields, { ...apply, ...at(1) }), entry('second', fields, noTime)]), 'first')
  t.equal(by([entry('a', fields, { ...apply, ...at(1) }), entry('b', fields, { ...apply, ...at(3) })]), 'unknown')
  t.equal(by([entry('a', fields, noTime)]), 'unknown', 'it only agrees')
  t.equal(by([entry('kubectl', fields, { subresource: 'scale', time: undefined })]), 'kubectl', '`scale` has no time')
  t.equal(by([entry('a', fields, at(1)), entry('b', fields, at(2))]), 'b', 'the newest')
  t.equal(by([entry('ancient-changes', fields, at(1)), entry('b', fields, { ...apply, ...at(3) })]), 'unknown')
})
