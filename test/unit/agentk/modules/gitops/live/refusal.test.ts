import t from 'tap'
import { refusal } from '../../../../../../src/agentk/modules/gitops/live/refusal.ts'
import { patience } from '../../../../../support/slowness.ts'

const path = '/api/v1/namespaces/shop/configmaps/a'
const kindOf = (status: number, message: string) => refusal({ status, body: { message } } as never, path).kind

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
  refusal({ status, body: { message, details } } as never, path)
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

const secretPath = '/api/v1/namespaces/shop/secrets/a'
const ofSecret = (status: number, message: string, causes: readonly object[] = [], at = secretPath) =>
  refusal({ status, body: { message, details: { kind: 'Secret', causes } } } as never, at)
const hidden = 'keys and values of Secrets are not shown: kubectl --dry-run=server prints the whole message'

t.test('of a Secret fields and reasons are shown, without keys and values', async (t) => {
  const cause = (field: string, reason = 'FieldValueInvalid') => ({ field, reason, message: 'Invalid value: "pw"' })
  const invalid = (...causes: object[]) => ofSecret(422, 'Secret "a" is invalid: data[pw]: "pw"', causes)
  t.equal(invalid(cause('data[pw]')).text, `data[…]: Invalid value; ${hidden}`)
  t.equal(invalid(cause('data[p]'), cause('data[w]')).text, `data[…]: Invalid value; ${hidden}`, 'each text once')
  t.strictSame(invalid(cause('data[pw]'), cause('data.pw'), cause('pw')).places, ['data[…]', 'data.…', '…'])
  t.equal(
    invalid(cause('metadata.annotations[kubernetes.io/service-account.name]', 'FieldValueRequired')).text,
    `metadata.annotations[kubernetes.io/service-account.name]: Required value; ${hidden}`,
  )
  t.equal(invalid(cause('data[pw]', 'pw')).text, `the API server answered 422; ${hidden}`, 'a reason of others')
  t.match(
    ofSecret(422, 'Secret "a" is invalid: data: Forbidden: field is immutable', [cause('data', 'FieldValueForbidden')]),
    {
      kind: 'immutable',
      text: `data: Forbidden; ${hidden}`,
    },
  )
  t.equal(ofSecret(503, '').text, 'the API server answered 503')
})

t.test('of a Secret no text that may quote it is shown', async (t) => {
  const typed = 'failed to create typed patch object (shop/a; /v1, Kind=Secret): '
  const cases: readonly (readonly [number, string, string])[] = [
    [400, 'Secret in version "v1" cannot be handled as a Secret: "pw"', 'the API server answered 400'],
    [400, 'json: error found in #10 byte of ...|"pw"|...', 'the API server answered 400'],
    [500, `${typed}.data.pw: expected string, got &value.valueUnstructured{Value:"pw"}`, '.data.…: expected string'],
    [500, `${typed}.pw: field not declared in schema`, '.…: field not declared in schema'],
    [
      500,
      `${typed}errors:\n  .data.p w: expected string, got "pw"\n  .type: expected string, got 1`,
      '.type: expected string',
    ],
    [
      400,
      'admission webhook "a.example.com" denied the request: "pw"',
      'admission webhook "a.example.com" denied the request',
    ],
    [
      403,
      'admission webhook "a.example.com" denied the request without explanation',
      'admission webhook "a.example.com" denied the request',
    ],
    [
      500,
      'Internal error occurred: failed calling webhook "a": failed to call webhook: an error on the server ("pw")',
      'Internal error occurred: failed calling webhook "a"',
    ],
    [
      422,
      `secrets "a" is forbidden: ValidatingAdmissionPolicy 'p' with binding 'b' denied request: pw`,
      "ValidatingAdmissionPolicy 'p' with binding 'b' denied request",
    ],
    [403, 'secrets "a" is forbidden: policy denied request: pw', 'the API server answered 403'],
    [403, 'secrets "a" is forbidden: pw: User "b" cannot patch', 'the API server answered 403'],
  ]
  for (const [status, message, text] of cases) t.equal(ofSecret(status, message).text, `${text}; ${hidden}`, message)
  const collection = '/api/v1/namespaces/shop/secrets?fieldManager=a&dryRun=All'
  t.notMatch(ofSecret(400, 'admission webhook "a" denied the request: pw', [], collection).text, 'pw')
})

t.test('of a Secret messages are shown that have nothing of it but its name', async (t) => {
  const messages: readonly (readonly [number, string])[] = [
    [403, 'secrets "a" is forbidden: User "system:serviceaccount:a:b" cannot patch resource "secrets"'],
    [403, 'secrets is forbidden: User "system:serviceaccount:a:b" cannot create resource "secrets"'],
    [403, 'secrets "a" is forbidden: exceeded quota: few, requested: secrets=1, used: secrets=1, limited: secrets=1'],
    [403, 'secrets "a" is forbidden: unable to create new content in namespace shop because it is being terminated'],
    [404, 'namespaces "shop" not found'],
    [404, 'the server could not find the requested resource'],
    [500, 'etcdserver: request timed out'],
    [
      500,
      'Internal error occurred: failed calling webhook "a": failed to call webhook: Post "https://a.shop.svc:443/": dial tcp 10.0.0.1:443: connect: connection refused',
    ],
    [
      500,
      'Internal error occurred: failed calling webhook "a": failed to call webhook: Post "https://a.shop.svc:443/": service "a" not found',
    ],
  ]
  for (const [status, message] of messages) t.equal(ofSecret(status, message).text, message)
  const custom = '/apis/example.com/v1/namespaces/shop/secrets/a'
  const quoting = 'admission webhook "a" denied the request: no label'
  t.equal(ofSecret(400, quoting, [], custom).text, quoting, 'of a custom kind')
})

t.test('a long message takes no quadratic work, whatever is in it', async (t) => {
  const length = 16 * 1024
  const parts = [
    'a',
    '.',
    'ab.',
    ' ',
    ' \n',
    '"',
    '\\"',
    'Invalid value: "',
    'Forbidden: \n ',
    'Post "https://a.',
    '.a: ',
  ]
  const began = process.cpuUsage()
  for (const part of parts) {
    const message = part.repeat(length / part.length)
    for (const path of ['/api/v1/namespaces/n/configmaps/a', '/api/v1/namespaces/n/secrets/a']) {
      for (const status of [403, 422, 500]) {
        const causes = [{ field: message, reason: 'FieldValueInvalid', message }]
        refusal({ status, body: { message, details: { causes } } }, path)
      }
    }
  }
  const { user } = process.cpuUsage(began)
  t.ok(user / 1000 < patience(5000), `${user / 1000} ms for ${parts.length * 6} messages`)
})
