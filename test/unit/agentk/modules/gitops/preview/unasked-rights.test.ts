import t from 'tap'
import { CallerView } from '../../../../../../src/agentk/modules/gitops/preview/caller-view.ts'
import type { Subject } from '../../../../../../src/agentk/modules/gitops/state/object-rights.ts'
import { keyText, type ObjectKey } from '../../../../../../src/kubernetes/key.ts'

const { signal } = new AbortController()
const caller = { as: 'agent' } as const
const map = (namespace: string, name = 'a'): ObjectKey => ({ group: '', kind: 'ConfigMap', namespace, name })

interface Allowed {
  readonly may: (subject: Subject) => boolean
  /** names in the rules of each namespace */
  readonly names?: readonly string[]
}

function viewOf({ may, names = [] }: Allowed): CallerView {
  const rule = { verbs: ['get'], apiGroups: [''], resources: ['configmaps'], resourceNames: names }
  const rights = {
    may: async (_verb: string, _caller: unknown, subjects: readonly Subject[]) => subjects.map(may),
    rules: async () => ({ status: { resourceRules: [rule] } }),
  }
  const plural = () => 'configmaps'
  return new CallerView({ rights, kinds: { find: () => undefined }, pluralOf: plural }, { caller, headers: [] })
}

t.test('a caller who may get all has all compared, and nothing to add', async (t) => {
  const view = viewOf({ may: () => true })
  t.equal((await view.visible([map('shop'), map('other')], signal)).size, 2)
  t.equal(view.unasked, '')
})

t.test('objects beyond the questions about rights are no silent part of the answer', async (t) => {
  const view = viewOf({ may: () => true })
  const keys = Array.from({ length: 501 }, (_, i) => map(`shop-${i}`))
  const visible = await view.visible(keys, signal)
  t.equal(visible.size, 500)
  t.notOk(visible.has(keyText(keys[500] as ObjectKey)))
  t.match(view.unasked, /500 kinds and namespaces/)
})

t.test('names beyond the questions about names neither', async (t) => {
  const keys = Array.from({ length: 101 }, (_, i) => map('shop', `map-${i}`))
  const may = ({ name }: Subject) => name !== undefined
  const some = viewOf({ may, names: keys.slice(0, 100).map(({ name }) => name) })
  t.equal((await some.visible(keys, signal)).size, 100)
  t.equal(some.unasked, '')
  const all = viewOf({ may, names: keys.map(({ name }) => name) })
  t.equal((await all.visible(keys, signal)).size, 100)
  t.match(all.unasked, /100 names/)
})
