import t from 'tap'
import { projectionOf } from '../../../../../../src/agentk/modules/views/projection/projection.ts'

t.test('a node says its version, and that it takes no more Pods', async (t) => {
  const facts = (spec: unknown, nodeInfo: unknown) => projectionOf('Node', { spec, status: { nodeInfo } }).facts
  t.same(facts({ unschedulable: true }, { kubeletVersion: 'v1.35.0' }), ['v1.35.0', 'cordoned'])
  t.same(facts({}, { kubeletVersion: 'v1.35.0' }), ['v1.35.0'])
  for (const odd of [undefined, null, 'x', 7]) t.same(facts(odd, odd), [])
})
