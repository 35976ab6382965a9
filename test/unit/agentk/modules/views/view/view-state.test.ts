import t from 'tap'
import { ListRights, resourceKey } from '../../../../../../src/agentk/modules/views/access/list-rights.ts'
import type { FollowState, Visibility } from '../../../../../../src/agentk/modules/views/store/record.ts'
import { seenStates, viewState } from '../../../../../../src/agentk/modules/views/view/view-state.ts'
import { kinds } from '../objects.ts'

const live: FollowState = { is: 'live', since: 1, why: '', refusedNamespaces: [], leftOut: [] }
const names = (count: number) => new Set(Array.from({ length: count }, (_, i) => `n${i}`))

function stateOf(seen: Parameters<typeof viewState>[0]['seen'], isFirstList: boolean) {
  const sees = {
    key: '',
    mayList: () => true,
    mayListWithin: () => true,
    mayListEvents: () => false,
    mayName: () => false,
  }
  return viewState({
    seen,
    visibility: sees,
    query: { view: 'tree' } as never,
    isFirstList,
    problem: '',
    openedAt: 1,
    caller: {} as never,
    areRightsKnown: true,
    awaitsRights: false,
    isFollowed: () => true,
    kinds: [],
  })
}

t.test('a scope of thousands of namespaces is one question for each kind', async (t) => {
  const [pods, nodes] = [kinds.pod, kinds.node].map(resourceKey) as [string, string]
  const rights = new ListRights(false, new Set([nodes]), new Map([[pods, new Set(['n1400'])]]))
  let asked = 0
  const counted: Visibility = {
    key: rights.key,
    mayList: (...one) => {
      asked++
      return rights.mayList(...one)
    },
    mayListWithin: (...one) => {
      asked++
      return rights.mayListWithin(...one)
    },
    mayListEvents: () => false,
    mayName: () => false,
  }
  const all = Object.values(kinds)
  const states = { all: () => all.map((kind) => [kind, live] as const), onChange: () => () => undefined }
  const seen = (namespaces: ReadonlySet<string>) =>
    seenStates({ states, visibility: counted, namespaces, present: { namespacesOf: () => [] } }).map(([{ key }]) => key)
  t.strictSame(seen(names(1500)), ['Pod', 'Node'])
  t.equal(asked, all.length)
  t.strictSame(seen(names(1000)), ['Node'])
  t.strictSame(seen(new Set()), [])
})

t.test('within one of some namespaces', async (t) => {
  const rights = new ListRights(false, new Set(), new Map([[resourceKey(kinds.pod), new Set(['a', 'b'])]]))
  t.ok(rights.mayListWithin(kinds.pod, new Set(['x', 'b'])))
  t.notOk(rights.mayListWithin(kinds.pod, new Set(['x'])))
  t.notOk(rights.mayListWithin(kinds.service, new Set(['a'])))
  t.ok(new ListRights(true, new Set(), new Map()).mayListWithin(kinds.pod, new Set(['x'])))
})

t.test('while kinds are listed it says how many are, of those that the caller may list', async (t) => {
  const of = (is: FollowState['is'], why = ''): FollowState => ({ ...live, is, why })
  const state = (seen: Parameters<typeof viewState>[0]['seen']) => stateOf(seen, true)
  const listing = [
    [kinds.pod, of('live')],
    [kinds.node, of('syncing')],
    [kinds.service, of('syncing', '503')],
  ] as const
  t.match(state(listing), { is: 'syncing', why: `1 of 3 kinds are listed; ${kinds.service.key}: 503` })
  t.match(state([[kinds.pod, of('live')]]), { is: 'syncing', why: undefined })
  t.match(state([[kinds.pod, of('stale', '503')]]), { is: 'stale', why: `${kinds.pod.key}: 503` })
})

t.test('a kind that is set aside is named, and holds up nobody', async (t) => {
  const of = (is: FollowState['is'], why = '', since = 5): FollowState => ({ ...live, is, why, since })
  const broken = [kinds.service, of('aside', 'the API server answered 500')] as const
  const aside = [[kinds.service.key, 'the API server answered 500', 5]]
  t.match(stateOf([[kinds.pod, of('live')], broken], false), { is: 'live', aside, notFollowed: [kinds.service.key] })
  t.match(stateOf([[kinds.pod, of('live')], [kinds.node, of('stale', '503')], broken], false), {
    is: 'stale',
    why: `${kinds.node.key}: 503`,
    aside,
  })
  t.match(stateOf([broken], false), { is: 'stale', since: 5, why: `${kinds.service.key}: the API server answered 500` })
  t.match(stateOf([[kinds.pod, of('stale', '503', 7)], broken], false), { is: 'stale', since: 5, aside: undefined })
})
