import t from 'tap'
import { gateVerdict } from '../../../../../../src/agentk/modules/gitops/apply/health-gate.ts'
import type { KubernetesObject } from '../../../../../../src/kubernetes/object.ts'

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

t.test('the message of a controller is not shown: it may name keys of Secrets', async (t) => {
  const synced = (condition: object, kind = 'ExternalSecret', apiVersion = 'external-secrets.io/v1') => ({
    apiVersion,
    kind,
    status: { conditions: [condition] },
  })
  const message = 'could not get secret data: key "db-password" of Secret shop/db'
  const shown = (object: KubernetesObject) => {
    const verdict = gateVerdict(object, 0)
    return verdict.kind === 'waits' ? verdict.text : verdict.kind
  }
  const rest = '; kubectl describe shows the message, which may name keys of Secrets'
  const failed = { type: 'Ready', status: 'False', reason: 'SecretSyncedError', message }
  t.equal(shown(synced(failed)), `Ready is False (SecretSyncedError)${rest}`)
  t.equal(shown(synced({ ...failed, status: 'Unknown' })), `Ready is Unknown (SecretSyncedError)${rest}`)
  t.equal(shown(synced({ ...failed, reason: message })), `Ready is False${rest}`, 'a message in place of a reason')
  t.equal(shown(synced({ ...failed, reason: undefined, message: undefined })), `Ready is False${rest}`)
  for (const type of ['Reconciling', 'Stalled']) {
    const one = { ...failed, type, status: 'True' }
    t.equal(shown(synced(one)), `${type} is True (SecretSyncedError)${rest}`)
    t.match(shown(synced(one, 'Deployment', 'apps/v1')), `${type} is True`, 'any controller may set it on any kind')
  }
  t.equal(shown(synced({ ...failed, status: 'True' })), 'open')
  t.match(shown({ apiVersion: 'v1', kind: 'Pod', status: { phase: 'Running' } }), 'Pod is running but is not Ready')
})

t.test('all else as kstatus has it', async (t) => {
  const deployment = { apiVersion: 'apps/v1', kind: 'Deployment', metadata: { generation: 1 } }
  t.match(gateVerdict(deployment, 0), { kind: 'waits', text: /Replicas: 0\/1/ })
  t.match(gateVerdict({ apiVersion: 'v1', kind: 'ConfigMap' }, 0), { kind: 'open' })
})
