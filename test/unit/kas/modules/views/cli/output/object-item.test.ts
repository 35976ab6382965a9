import t from 'tap'
import { eventItem, objectItem } from '../../../../../../../src/kas/modules/views/cli/output/object-item.ts'
import type { Row } from '../../../../../../../src/proto/views-json.ts'

const now = Date.parse('2026-11-28T12:00:00Z')
const plain = (value: unknown) => JSON.parse(JSON.stringify(value)) as unknown

t.test('a row in whole words; what is not known is absent', async (t) => {
  const row: Row = { u: 'c1', k: 'ConfigMap', ns: 'shop', n: 'settings' }
  t.strictSame(plain(objectItem(row, now)), {
    id: 'c1',
    type: 'object',
    kind: 'ConfigMap',
    namespace: 'shop',
    name: 'settings',
    uid: 'c1',
    facts: [],
  })
})

t.test('a culprit that is hidden has no uid, one that is in no namespace has none', async (t) => {
  const z = { kind: 'Node', namespace: '', name: 'worker-9', id: '', reason: 'NotReady', text: '', next: '' }
  t.match(plain(objectItem({ u: 'd1', k: 'apps/Deployment', n: 'web', z }, now)), {
    reason: 'NotReady',
    culprit: { kind: 'Node', name: 'worker-9', count: 1 },
  })
  t.strictSame(Object.keys(plain(objectItem({ u: 'd1', k: 'Pod', n: 'web', z }, now)) as object).sort(), [
    'culprit',
    'facts',
    'id',
    'kind',
    'name',
    'reason',
    'type',
    'uid',
  ])
})

t.test('what stands for several has no uid, and a bundle no name', async (t) => {
  const shown = (row: Row) => {
    const { type, name, uid } = objectItem(row, now)
    return [type, name, uid]
  }
  t.strictSame(shown({ u: 'g:shop', k: 'Application', n: 'shop' }), ['group', 'shop', undefined])
  t.strictSame(shown({ u: 'b:d1:Pod', k: 'Pod', n: '', c: 9 }), ['bundle', undefined, undefined])
  t.strictSame(shown({ u: 'o:shop:u1', k: 'Job', n: 'sync' }), ['owner', 'sync', undefined])
})

t.test('times that RFC 3339 cannot write are unknown', async (t) => {
  for (const odd of [1e300, -1e300, Number.NaN, 253_402_300_800_000, -62_167_219_200_001]) {
    const z = { kind: 'Pod', namespace: '', name: 'a', id: '', reason: 'X', text: 'x', since: odd, last: odd, next: '' }
    const { created, since, sinceAtLeast, lastSeen } = objectItem({ u: 'a', k: 'Pod', n: 'a', t: odd, z }, now)
    t.strictSame([created, since, sinceAtLeast, lastSeen], [undefined, undefined, undefined, undefined], String(odd))
  }
  const { created } = objectItem({ u: 'a', k: 'Pod', n: 'a', t: 253_402_300_799_999 }, now)
  t.equal(created, '9999-12-31T23:59:59.999Z')
})

t.test('a command is one that a shell takes as it is', async (t) => {
  const next = 'kubectl -n shop get pod db-0 -o jsonpath={.spec.imagePullSecrets}'
  const z = { kind: 'Pod', namespace: 'shop', name: 'db-0', id: 'p', reason: 'X', text: '', next, undo: true } as const
  const row: Row = { u: 's', k: 'apps/StatefulSet', ns: 'shop', n: 'db', z }
  t.match(objectItem(row, now), {
    next: "kubectl -n shop get pod db-0 -o jsonpath='{.spec.imagePullSecrets}'",
    undo: 'kubectl -n shop rollout undo statefulset/db',
  })
  t.equal(objectItem({ ...row, k: 'Pod' }, now).undo, undefined, 'kubectl rolls no Pod back')
})

t.test('an event names the object that it is about', async (t) => {
  const event = { u: 'e', ns: 'shop', type: 'Warning', reason: 'BackOff', text: 'waits', count: 3, at: now } as const
  t.strictSame(plain(eventItem({ ...event, about: ['apps/Deployment', 'web', ''] })), {
    id: 'e',
    namespace: 'shop',
    object: { kind: 'Deployment', group: 'apps', namespace: 'shop', name: 'web' },
    type: 'Warning',
    reason: 'BackOff',
    message: 'waits',
    count: 3,
    lastSeen: '2026-11-28T12:00:00.000Z',
  })
})
