import t from 'tap'
import {
  conflictsIn,
  isLeftToScaler,
  withoutField,
} from '../../../../../../src/agentk/modules/gitops/apply/conflicts.ts'

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

t.test('left to a scaler: what it scales, unless it is a hand, or leads into a list', async (t) => {
  const conflict = { field: '.spec.replicas', manager: 'keda', subresource: 'scale' }
  t.equal(isLeftToScaler(conflict), true)
  t.equal(isLeftToScaler({ ...conflict, manager: 'kubectl' }), false)
  t.equal(isLeftToScaler({ ...conflict, subresource: '' }), false)
  t.equal(isLeftToScaler({ ...conflict, field: '.spec.sets[name="a"].size' }), false)
})

t.test('an object without a field is another object', async (t) => {
  const object = { kind: 'Deployment', spec: { replicas: 2, paused: true } }
  const conflict = { manager: '', subresource: '' }
  t.strictSame(withoutField(object, { ...conflict, field: '.spec.replicas' }), {
    kind: 'Deployment',
    spec: { paused: true },
  })
  t.equal(object.spec.replicas, 2)
  t.strictSame(withoutField(object, { ...conflict, field: '.status.replicas' }), object)
  t.strictSame(withoutField(object, { ...conflict, field: '.kind.replicas' }), object)
})
