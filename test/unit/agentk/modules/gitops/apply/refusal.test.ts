import t from 'tap'
import { refusal } from '../../../../../../src/agentk/modules/gitops/apply/refusal.ts'

const kindOf = (status: number, message: string) => refusal({ status, body: { message } } as never).kind

t.test('what only goes once another object has gone', async (t) => {
  const host = 'denied the request: host "a.example.com" and path "/" is already defined in ingress shop/old'
  const webhook = `admission webhook "validate.nginx.ingress.kubernetes.io" ${host}`
  for (const status of [400, 403]) t.equal(kindOf(status, webhook), 'taken')
  t.equal(kindOf(422, 'spec.ports[0].nodePort: Invalid value: 31000: provided port is already allocated'), 'taken')
  t.equal(
    kindOf(403, 'services "two" is forbidden: exceeded quota: few, requested: services=1, used: services=1'),
    'quota',
  )
  t.equal(kindOf(403, 'services is forbidden: User "deployer" cannot patch resource'), 'denied')
  t.equal(kindOf(400, 'admission webhook "other" denied the request: no'), 'invalid')
})

t.test('what only a new object could have, in the words of each kind', async (t) => {
  const rest = 'Forbidden: updates to statefulset spec for fields other than replicas are forbidden'
  const words = [
    'Deployment.apps "web" is invalid: spec.selector: Invalid value: {}: field is immutable',
    `Job.batch "x" is invalid: spec.template: Invalid value: {${'"a":"b",'.repeat(3000)}}: field is immutable`,
    'Pod "x" is invalid: spec: Forbidden: pod updates may not change fields other than `spec.containers[*].image`',
    `StatefulSet.apps "db" is invalid: spec: ${rest}`,
    'RoleBinding.rbac.authorization.k8s.io "x" is invalid: roleRef: Invalid value: {}: cannot change roleRef',
    'PersistentVolumeClaim "x" is invalid: spec: Forbidden: spec is immutable after creation except resources.requests',
  ]
  for (const message of words) t.equal(kindOf(422, message), 'immutable', message.slice(0, 60))
  t.equal(
    kindOf(422, 'Deployment.apps "web" is invalid: spec.replicas: Invalid value: -1: must be positive'),
    'invalid',
  )
})
