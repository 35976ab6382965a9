import t from 'tap'
import { refusal } from '../../../../../../src/agentk/modules/gitops/apply/refusal.ts'

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
