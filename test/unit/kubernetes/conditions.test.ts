import t from 'tap'
import {
  conditionAt,
  conditionReason,
  conditionStatus,
  conditionsAt,
  conditionsOf,
  isUnobserved,
  timedConditions,
} from '../../../src/kubernetes/conditions.ts'

const now = Date.parse('2026-01-02T00:00:00Z')
const ready = { type: 'Ready', status: 'False', reason: 'Waits', message: 'for others' }
const conditions = [
  { ...ready, lastTransitionTime: '2026-01-01T00:00:00Z', observedGeneration: 3 },
  null,
  { type: 'Synced', status: true },
]
const object = { metadata: { generation: 3 }, status: { conditions, observedGeneration: 2 } }

t.test('conditions are read whatever stands there', async (t) => {
  t.strictSame(conditionsOf(object), [ready, { type: 'Synced', status: '', reason: '', message: '' }])
  for (const other of [undefined, null, {}, { status: 'x' }, { status: { conditions: {} } }]) {
    t.strictSame(conditionsOf(other), [])
    t.equal(conditionStatus(other, 'Ready'), '')
  }
})

t.test('a condition has the time of its status, and the generation that it speaks of', async (t) => {
  const timed = { ...ready, since: now - 86_400_000, generation: 3 }
  t.strictSame(conditionsAt(object, now)[0], timed)
  t.strictSame(timedConditions(conditions, now)[0], timed)
  t.strictSame(conditionAt(object, 'Ready', now), timed)
  t.match(conditionAt(object, 'Synced', now), { since: undefined, generation: undefined })
  t.equal(conditionAt(object, 'Available', now), undefined)
  t.strictSame(timedConditions({ Ready: true }, now), [])
})

t.test('of one type the first is read', async (t) => {
  const twice = { status: { conditions: [ready, { ...ready, status: 'True', reason: 'Other' }] } }
  t.equal(conditionStatus(twice, 'Ready'), 'False')
  t.equal(conditionReason(twice, 'Ready'), 'Waits')
  t.equal(conditionReason(twice, 'Synced'), '')
})

t.test('a controller that says what it has seen is behind the spec, or is not', async (t) => {
  t.equal(isUnobserved(object), true)
  t.equal(isUnobserved({ metadata: { generation: 3 }, status: { observedGeneration: 3 } }), false)
  t.equal(isUnobserved({ metadata: { generation: 3 }, status: {} }), false)
})
