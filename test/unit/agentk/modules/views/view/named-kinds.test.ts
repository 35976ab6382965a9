import t from 'tap'
import { readQuery } from '../../../../../../src/agentk/modules/views/tree/query.ts'
import { namedKinds } from '../../../../../../src/agentk/modules/views/view/named-kinds.ts'
import type { ResourceKind } from '../../../../../../src/kubernetes/kind.ts'
import { builtInKinds } from '../../../../../../src/kubernetes/kind-words.ts'
import { kindOf } from '../../../../../support/views/records.ts'
import { user } from '../../../../../support/views/view-stage.ts'

/** Each view searches for the unknown names of its query whenever states change. */

const bob = user('bob')
const query = (parts: object) => readQuery(Buffer.from(JSON.stringify({ view: 'list', ...parts })))

t.test('of all kinds in thousands of namespaces as many are asked about as are named', async (t) => {
  let asked = 0
  const visibility = {
    mayList: () => {
      asked++
      return false
    },
    mayListWithin: () => false,
    mayListEvents: () => false,
    mayName: () => false,
    key: '',
  }
  const namespaces = Array.from({ length: 5000 }, (_, i) => `n${i}`)
  const objects = builtInKinds.map(({ key }) => ({ kind: key }))
  const parts = { caller: bob, visibility, seen: [], isFollowed: () => true }
  const of = (one: object) => namedKinds({ ...parts, query: query(one) }).refused?.length
  t.equal(of({ objects, scope: { namespaces } }), 100)
  t.ok(asked <= 100, `${asked} reviews were looked at`)
  t.equal(of({ scope: { namespaces } }), 100)
})

t.test('words that name nothing are compared with names of kinds once, as long as these are the same', async (t) => {
  let read = 0
  const seen = Array.from({ length: 200 }, (_, i) => {
    const kind = kindOf(`example.com/Kind${i}`, `kind${i}s`)
    return {
      ...kind,
      get plural() {
        read++
        return kind.plural
      },
    } satisfies ResourceKind
  })
  const long = 'x'.repeat(65)
  const objects = [{ kind: long }, ...Array.from({ length: 400 }, (_, i) => ({ kind: `knd${i}s` }))]
  const visibility = {
    mayList: () => true,
    mayListWithin: () => true,
    mayListEvents: () => true,
    mayName: () => true,
    key: '*',
  }
  const asked = query({ objects })
  const parts = { query: asked, caller: bob, visibility, isFollowed: () => true }
  const { unknown } = namedKinds({ ...parts, seen })
  t.strictSame(unknown?.slice(0, 2), [
    [long, ''],
    ['knd0s', 'kind0s'],
  ])
  t.equal(unknown?.length, 100)
  read = 0
  t.strictSame(namedKinds({ ...parts, seen }).unknown, unknown)
  t.equal(read, 0)
  const [, ...fewer] = seen
  t.strictSame(namedKinds({ ...parts, seen: fewer }).unknown?.[1], ['knd0s', 'kind0s'.replace('0', '1')])
})
