import t from 'tap'
import { PresentKinds } from '../../../../../../src/agentk/modules/views/access/present-kinds.ts'
import { Places } from '../../../../../../src/agentk/modules/views/store/indexes.ts'
import { Multimap } from '../../../../../../src/agentk/modules/views/store/multimap.ts'
import type { ResourceKind } from '../../../../../../src/kubernetes/kind.ts'
import { ManualClock } from '../../../../../support/manual-clock.ts'
import { kinds } from '../objects.ts'

t.test('values by a key, one or many', async (t) => {
  const index = new Multimap<string, string>()
  const at = (key: string) => [...index.get(key)]
  for (const uid of ['a', 'b', 'b', 'c']) index.add('one', uid)
  index.add('other', 'a')
  index.add('other', 'a')
  t.same(at('one'), ['a', 'b', 'c'])
  t.same(at('other'), ['a'])
  t.same(at('none'), [])
  index.delete('other', 'b')
  t.same(at('other'), ['a'], 'of another uid')
  for (const uid of ['a', 'b', 'c', 'c']) index.delete('one', uid)
  index.delete('other', 'a')
  t.same(at('one'), [])
  t.equal(index.size, 0, 'nothing is left of what is gone')

  const many = Array.from({ length: 40 }, (_, i) => `uid-${i}`)
  for (const [i, uid] of many.entries()) {
    index.add('many', uid)
    index.add('many', 'uid-0')
    t.same(at('many'), many.slice(0, i + 1), 'each once, in order, however many')
  }
  const read = index.get('many')
  for (const uid of many.slice(1)) index.delete('many', uid)
  t.same([at('many'), [...read]], [['uid-0'], ['uid-0']])
  index.delete('many', 'uid-0')
  t.notOk(index.has('many'))
})

t.test('places say how many there are of each kind', async (t) => {
  const places = new Places()
  const place = (uid: string, namespace: string) => ({ uid, name: `name-${uid}`, namespace, kind: kinds.pod })
  for (const each of [place('a', 'one'), place('b', 'one'), place('c', 'two')]) places.add(each)
  t.same([...places.sizes], [['Pod', 3]])
  t.same([...places.uids('Pod', undefined)], ['a', 'b', 'c'])
  t.same([...places.uids('Pod', 'one')], ['a', 'b'])
  t.same([...places.uids('Pod', 'three')], [])
  t.same([...places.uids('Service', undefined)], [])
  places.delete(place('x', 'one'))
  places.delete(place('a', 'one'))
  places.delete(place('a', 'one'))
  t.same([...places.sizes], [['Pod', 2]], 'what is not there does not count')
  for (const each of [place('b', 'one'), place('c', 'two')]) places.delete(each)
  t.same([...places.sizes], [])
})

t.test('what comes and goes again and again is nothing new to ask about', async (t) => {
  const clock = new ManualClock()
  const present = new PresentKinds(clock)
  let more = 0
  present.onMore(() => more++)
  const namespaces = (kind: ResourceKind) => {
    for (const one of present.kinds()) if (one.kind === kind) return [...one.namespaces.keys()]
    return []
  }
  for (let i = 0; i < 100; i++) {
    t.ok(present.add(kinds.pod, 'shop'))
    t.ok(present.delete(kinds.pod, 'shop'))
  }
  t.equal(more, 1)
  t.strictSame([...present.namespacesOf(kinds.pod)], [], 'there is none')
  t.strictSame(namespaces(kinds.pod), ['shop'], 'and yet it is of interest')
  clock.advance(60_000)
  t.strictSame(namespaces(kinds.pod), [])
  present.add(kinds.pod, 'shop')
  t.equal(more, 2)
  t.notOk(present.add(kinds.pod, 'shop'))
  clock.advance(60_000)
  t.strictSame(namespaces(kinds.pod), ['shop'])
})
