import t from 'tap'
import {
  type SourceCondition,
  sinceTransition,
  transitionsIn,
} from '../../../../../../src/agentk/modules/gitops/state/transitions.ts'

const condition = (type: string, status: SourceCondition['status'], lastTransitionTime: string): SourceCondition => ({
  type,
  status,
  reason: 'x',
  message: '',
  lastTransitionTime,
})

t.test('a condition keeps the time since which it has its status, whatever its reason becomes', async (t) => {
  const before = [
    condition('Ready', 'True', '2026-01-01T00:00:00Z'),
    condition('Drifted', 'False', '2026-01-02T00:00:00Z'),
  ]
  const now = [condition('Ready', 'True', '2026-01-03T00:00:00Z'), condition('Drifted', 'True', '2026-01-04T00:00:00Z')]
  t.strictSame(
    sinceTransition(now, before).map(({ lastTransitionTime }) => lastTransitionTime),
    ['2026-01-01T00:00:00Z', '2026-01-04T00:00:00Z'],
  )
  t.strictSame(sinceTransition(now, []), now, 'at first each has its own time')
})

t.test('bad input: a status that people have written', async (t) => {
  for (const status of [
    undefined,
    null,
    'text',
    [],
    { conditions: 'x' },
    { conditions: [null, 5, {}, { type: 'Ready' }] },
  ])
    t.strictSame(transitionsIn(status), [])
  const odd = { type: 'Ready', status: 'True', lastTransitionTime: 'yesterday' }
  t.strictSame(transitionsIn({ conditions: [odd] }), [], 'a time that is none does not count')
})
