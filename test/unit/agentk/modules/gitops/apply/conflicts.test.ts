import t from 'tap'
import { areReplicas, conflictsIn } from '../../../../../../src/agentk/modules/gitops/apply/conflicts.ts'

const cause = (field: string, message: string) => ({ reason: 'FieldManagerConflict', field, message })
const scaled = 'conflict with "kube-controller-manager" with subresource "scale" using apps/v1'

t.test('whose a field is, as the API server says it', async (t) => {
  const body = {
    details: { causes: [cause('.spec.replicas', scaled), cause('.data.a', 'conflict with "ed \\"x\\""')] },
  }
  t.strictSame(conflictsIn(body), [
    { field: '.spec.replicas', manager: 'kube-controller-manager', subresource: 'scale' },
    { field: '.data.a', manager: 'ed \\"x\\"', subresource: '' },
  ])
  t.strictSame(conflictsIn({ reason: 'Conflict', details: {} }), [])
  t.strictSame(conflictsIn(undefined), [])
})

const usual = 'spec.replicas'

t.test('replicas: what was written through scale, or spec.replicas, whoever has; nothing in a list', async (t) => {
  const conflict = { field: '.spec.size', manager: 'keda', subresource: 'scale' }
  t.equal(areReplicas(conflict, usual), true)
  t.equal(areReplicas({ ...conflict, subresource: '' }, usual), false)
  t.equal(areReplicas({ ...conflict, subresource: '' }, 'spec.size'), true)
  t.equal(areReplicas({ field: '.spec.replicas', manager: 'kubectl-edit', subresource: '' }, usual), true)
  t.equal(areReplicas({ ...conflict, field: '.spec.sets[name="a"].size' }, usual), false)
})
