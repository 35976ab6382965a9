import t from 'tap'
import { CallerView } from '../../../../../../src/agentk/modules/gitops/preview/caller-view.ts'
import type { Subject } from '../../../../../../src/agentk/modules/gitops/state/object-rights.ts'

/** Which objects of a preview a caller may get. */

const caller = { as: 'user', user: { username: 'gitlab:user:ada', groups: [], uid: '', extra: [] } } as const
const plurals: Readonly<Record<string, string>> = {
  Secret: 'secrets',
  ConfigMap: 'configmaps',
  Namespace: 'namespaces',
}
const keyOf = (kind: string, name: string, namespace = 'shop', group = '') => ({ group, kind, namespace, name })
const { signal } = new AbortController()

interface Given {
  readonly isAllowed: (subject: Subject, verb: string) => boolean
  readonly rules?: readonly object[]
  readonly pluralOf?: string
}

function start({ isAllowed, rules = [], pluralOf }: Given) {
  const asked: string[] = []
  const rights = {
    may: async (
      verb: string,
      _: unknown,
      subjects: readonly Subject[],
      __: AbortSignal,
      headers?: readonly string[],
    ) => {
      for (const { plural, namespace, name = '' } of subjects)
        asked.push(`${verb} ${plural} ${namespace} ${name} ${headers}`)
      return subjects.map((subject) => isAllowed(subject, verb))
    },
    rules: async (_: unknown, namespace: string) => {
      asked.push(`rules ${namespace}`)
      return { status: { resourceRules: rules } }
    },
  }
  const find = ({ kind }: { kind: string }) => {
    const plural = plurals[kind]
    return plural === undefined ? undefined : ({ plural } as never)
  }
  const view = new CallerView(
    { rights, kinds: { find }, pluralOf: () => pluralOf },
    { caller, headers: ['Audit-ID', 'a'] },
  )
  return { view, asked }
}

t.test('each kind and namespace is asked about once, also of objects that do not exist', async (t) => {
  const { view, asked } = start({ isAllowed: ({ kind }) => kind === 'ConfigMap' })
  const keys = ['a', 'b'].flatMap((name) => [keyOf('ConfigMap', name), keyOf('Secret', name)])
  t.strictSame([...(await view.visible(keys, signal))], ['/ConfigMap/shop/a', '/ConfigMap/shop/b'])
  await view.visible(keys, signal)
  t.equal(asked.filter((one) => one.startsWith('get configmaps')).length, 1)
  t.ok(asked.every((one) => one.startsWith('rules') || one.endsWith('Audit-ID,a')))
})

t.test('a namespace is asked about by its name, within itself', async (t) => {
  const { view, asked } = start({ isAllowed: () => true })
  await view.visible([keyOf('Namespace', 'team', '')], signal)
  t.strictSame(asked, ['get namespaces team team Audit-ID,a'])
})

t.test('names that a rule has are asked about one by one', async (t) => {
  const rules = [{ verbs: ['get'], apiGroups: [''], resources: ['secrets'], resourceNames: ['token', 'refused'] }]
  const { view, asked } = start({ isAllowed: ({ name }) => name === 'token', rules })
  const keys = ['token', 'refused', 'other'].map((name) => keyOf('Secret', name))
  t.strictSame([...(await view.visible(keys, signal))], ['/Secret/shop/token'], 'the API server decides')
  t.notOk(asked.some((one) => one.includes('other')))
})

t.test('a definition among the files names only kinds that nobody serves', async (t) => {
  const { view, asked } = start({ isAllowed: () => true, pluralOf: 'configmaps' })
  await view.visible([keyOf('Secret', 'a'), keyOf('Gadget', 'b', 'shop', 'example.com')], signal)
  t.match(asked[0], /^get secrets/)
  t.match(asked[1], /^get configmaps/)
})

t.test('subjects beyond the limit are not visible', async (t) => {
  const { view } = start({ isAllowed: () => true })
  const keys = Array.from({ length: 501 }, (_, i) => keyOf('ConfigMap', 'a', `n${i}`))
  t.equal((await view.visible(keys, signal)).size, 500)
})
