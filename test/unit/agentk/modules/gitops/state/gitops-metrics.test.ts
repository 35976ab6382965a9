import { create } from '@bufbuild/protobuf'
import { Registry } from 'prom-client'
import t from 'tap'
import { createGitopsMetrics } from '../../../../../../src/agentk/modules/gitops/state/gitops-metrics.ts'
import { Phase, SourceStateSchema } from '../../../../../../src/proto/gen/gitops_states_pb.ts'

const stateOf = (phase: Phase, health?: object) =>
  create(SourceStateSchema, { source: '42-7', phase, ...(health && { health }) } as object)

t.test('unhealthy objects are counted by source and verdict, and not while a round has them unread', async (t) => {
  const register = new Registry()
  const metrics = createGitopsMetrics(register)
  const counts = async () => {
    const { values = [] } = (await register.getSingleMetric('agentk_gitops_unhealthy_objects')?.get()) ?? {}
    return Object.fromEntries(values.map(({ labels, value }) => [`${labels.source} ${labels.verdict}`, value]))
  }
  metrics.changed(stateOf(Phase.SYNCED))
  t.strictSame(await counts(), {}, 'nobody judges them')
  metrics.changed(stateOf(Phase.SYNCED, { healthy: 3, degraded: 2, progressing: 1, suspended: 1 }))
  const found = { '42-7 degraded': 2, '42-7 missing': 0, '42-7 progressing': 1, '42-7 unknown': 0 }
  t.strictSame(await counts(), found)
  metrics.changed(stateOf(Phase.APPLYING, { unread: 6 }))
  t.strictSame(await counts(), found, 'a round begins with no object read')
  metrics.changed(stateOf(Phase.APPLYING, { healthy: 5, missing: 1 }))
  t.match(await counts(), { '42-7 degraded': 0, '42-7 missing': 1 }, 'it waits for an object')
  metrics.changed(stateOf(Phase.FAILING))
  t.strictSame(await counts(), {}, 'nobody follows its objects')
  metrics.changed(stateOf(Phase.SYNCED, { degraded: 1 }))
  metrics.removed('42-7')
  t.strictSame(await counts(), {})
})
