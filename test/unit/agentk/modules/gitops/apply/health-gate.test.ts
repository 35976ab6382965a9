import t from 'tap'
import { gateVerdict } from '../../../../../../src/agentk/modules/gitops/apply/health-gate.ts'

const job = (...types: string[]) => ({
  apiVersion: 'batch/v1',
  kind: 'Job',
  status: { startTime: '2026-06-01T00:00:00Z', conditions: types.map((type) => ({ type, status: 'True' })) },
})

t.test('a Job is waited for to its end, not to its beginning', async (t) => {
  t.match(gateVerdict(job(), 0), { kind: 'waits' })
  t.match(gateVerdict(job('Complete'), 0), { kind: 'open' })
  t.match(gateVerdict(job('Failed'), 0), { kind: 'fails' })
  t.match(gateVerdict(job('Suspended'), 0), { kind: 'open' })
})

t.test('all else as kstatus has it', async (t) => {
  const deployment = { apiVersion: 'apps/v1', kind: 'Deployment', metadata: { generation: 1 } }
  t.match(gateVerdict(deployment, 0), { kind: 'waits', text: /Replicas: 0\/1/ })
  t.match(gateVerdict({ apiVersion: 'v1', kind: 'ConfigMap' }, 0), { kind: 'open' })
})
