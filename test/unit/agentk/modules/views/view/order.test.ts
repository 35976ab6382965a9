import t from 'tap'
import type { Ranked } from '../../../../../../src/agentk/modules/views/tree/forest-node.ts'
import { orderBy } from '../../../../../../src/agentk/modules/views/view/order.ts'

t.test('the worst first; of those that are as bad workloads, then by kind and name', async (t) => {
  const entry = (kind: string, name: string, total = 1): Ranked => ({
    id: name,
    total,
    kind,
    name,
    namespace: 'shop',
    record: undefined,
  })
  const sorted = [
    entry('Service', 'worst', 5),
    entry('apps/Deployment', 'a'),
    entry('apps/Deployment', 'b'),
    entry('apps/StatefulSet', 'a'),
    entry('batch/CronJob', 'a'),
    entry('ConfigMap', 'a'),
    entry('Service', 'a'),
    entry('apps/ControllerRevision', 'a'),
    entry('networking.k8s.io/Ingress', 'a'),
  ]
  t.same([...sorted].reverse().sort(orderBy(undefined)), sorted)
})
