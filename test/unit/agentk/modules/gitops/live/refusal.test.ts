import t from 'tap'
import { refusal } from '../../../../../../src/agentk/modules/gitops/live/refusal.ts'

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

const refused = (status: number, message: string, details: object = {}) =>
  refusal({ status, body: { message, details } } as never)
const text = (message: string) => refused(422, message).text

t.test('what an API server says is told without values', async (t) => {
  t.equal(
    text('ConfigMap "a" is invalid: [x: Invalid value: "p\\"w: ": must be short, y: Invalid value: "pw": bad]'),
    'ConfigMap "a" is invalid: [x: Invalid value: …: must be short, y: Invalid value: …: bad]',
  )
  t.equal(
    text('Pod "a" is invalid: spec: Invalid value: core.PodSpec{Env:[]core.EnvVar{{Value:"pw"}}}: bad'),
    'Pod "a" is invalid: spec: Invalid value: …',
  )
  t.match(refused(422, 'Service "a" is invalid: spec.clusterIP: Invalid value: []string{"pw"}: field is immutable'), {
    kind: 'immutable',
    text: 'Service "a" is invalid: spec.clusterIP: Invalid value: …: field is immutable',
  })
  const typed = 'failed to create typed patch object (/a; /v1, Kind=Pod): .spec.a: expected map, got &value.'
  t.match(refused(500, `${typed}valueUnstructured{Value:"pw"}`), {
    kind: 'invalid',
    text: `${typed}valueUnstructured{…`,
  })
  t.equal(text('json: error found in #10 byte of ...|"pw"|...'), 'json: error found in #10 byte of …')
  const port = 'Service "a" is invalid: port: Invalid value: 70000: must be between 1 and 65535, inclusive'
  t.equal(text(port), port, 'numbers are told')
  t.equal(text(`a: Invalid value: "${'pw'.repeat(10_000)}": bad`), 'a: Invalid value: …')
  t.equal(refused(503, '').text, 'the API server answered 503')
})

t.test('why a field cannot change is told without the comparison of both specs, and on one line', async (t) => {
  const why = 'spec: Forbidden: spec is immutable after creation except resources.requests'
  const diff = '\n  core.PersistentVolumeClaimSpec{\n- \tAccessModes: {"old"},\n+\u00a0\tAccessModes: {"new"},\n  }\n'
  t.match(refused(422, `PersistentVolumeClaim "a" is invalid: ${why}${diff}`), {
    kind: 'immutable',
    text: `PersistentVolumeClaim "a" is invalid: ${why}`,
  })
  const unified = '\n@@ -6,7 +6,7 @@\n  "Requests": {\n-   "storage": "2Gi"\n+   "storage": "1Gi"\n  },\n'
  t.equal(
    text(`PersistentVolumeClaim "a" is invalid: ${why}${unified}`),
    `PersistentVolumeClaim "a" is invalid: ${why}`,
  )
  const size = 'spec.resources.requests.storage: Forbidden: field can not be less than status.capacity'
  t.equal(text(`PersistentVolumeClaim "a" is invalid: [${why}${diff}, ${size}]`).endsWith(`${why}, ${size}]`), true)
  const policy = 'admission webhook "kyverno" denied the request: \n\nresource Pod/a was blocked\n\nrule: no\n'
  t.equal(text(policy), 'admission webhook "kyverno" denied the request: resource Pod/a was blocked rule: no')
})

t.test('of a Secret the status alone is told, and which right or quota is missing', async (t) => {
  const kept = { kind: 'secrets', group: '' }
  t.match(refused(422, 'Secret "a" is invalid: data: Forbidden: field is immutable', { kind: 'Secret' }), {
    kind: 'immutable',
    text: 'the API server answered 422',
  })
  t.equal(refused(400, 'Secret in version "v1" cannot be handled: "pw"').text, 'the API server answered 400')
  t.equal(refused(500, 'failed to create typed (a/b; /v1, Kind=Secret): pw').text, 'the API server answered 500')
  t.equal(refused(403, 'secrets "a" is forbidden: policy denied request: pw', kept).text, 'the API server answered 403')
  const denied = 'secrets "a" is forbidden: User "system:serviceaccount:a:b" cannot patch resource "secrets"'
  t.match(refused(403, denied, kept), { kind: 'denied', text: denied })
  const quota = 'secrets "a" is forbidden: exceeded quota: few, requested: secrets=1'
  t.equal(refused(403, quota, kept).text, quota)
  const other = { kind: 'secrets', group: 'example.com' }
  t.equal(refused(403, 'secrets.example.com "a" is bad', other).text, 'secrets.example.com "a" is bad')
})
