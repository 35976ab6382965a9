import t from 'tap'
import {
  isSecret,
  isSecretObject,
  isSecretPath,
  mayMakeSecret,
  secretField,
  shownAnnotation,
  shownField,
} from '../../../../../../src/agentk/modules/gitops/manifests/secrets.ts'

t.test('a Secret is one of the core group, in any case', async (t) => {
  const kinds: readonly (readonly [string, string, boolean])[] = [
    ['', 'Secret', true],
    ['', 'secret', true],
    ['', 'SECRET', true],
    ['', 'ConfigMap', false],
    ['', 'SecretList', false],
    ['example.com', 'Secret', false],
    ['bitnami.com', 'SealedSecret', false],
  ]
  for (const [group, kind, expected] of kinds) {
    t.equal(isSecret({ group, kind }), expected, `${group}/${kind}`)
    const apiVersion = group === '' ? 'v1' : `${group}/v1`
    t.equal(isSecretObject({ apiVersion, kind }), expected, `${apiVersion} ${kind}`)
  }
  for (const object of [{}, { kind: 1 }, { apiVersion: 'v1', kind: ['Secret'] }]) t.equal(isSecretObject(object), false)
  const paths: readonly (readonly [string, boolean])[] = [
    ['/api/v1/namespaces/shop/secrets/a', true],
    ['/api/v1/namespaces/shop/secrets/a?fieldManager=b', true],
    ['/api/v1/namespaces/shop/secrets?dryRun=All', true],
    ['/api/v1/namespaces/shop/secrets', true],
    ['/api/v1/namespaces/secrets', false],
    ['/api/v1/namespaces/shop/configmaps/secrets', false],
    ['/api/v1/namespaces/shop/secretsx/a', false],
    ['/apis/example.com/v1/namespaces/shop/secrets/a', false],
  ]
  for (const [path, expected] of paths) t.equal(isSecretPath(path), expected, path)
})

t.test('a path of a field ends at data; names of annotations and labels stay', async (t) => {
  const fields: readonly (readonly [string, string])[] = [
    ['.data.password', '.data.…'],
    ['.data.tls.crt', '.data.…'],
    ['.data', '.data'],
    ['data[password]', 'data[…]'],
    ['data[a b]', 'data[…]'],
    ['data["a\u001b[31m"].x', 'data[…]'],
    ['data.name', 'data.…'],
    ['.data.data', '.data.…'],
    ['stringData.type', 'stringData.…'],
    ['.stringData', '.stringData'],
    ['.datax', '.…'],
    ['password', '…'],
    ['.password', '.…'],
    ['', ''],
    ['.type', '.type'],
    ['immutable', 'immutable'],
    ['.metadata.labels', '.metadata.labels'],
    ['.metadata.annotations.example.com/token', '.metadata.annotations.example.com/token'],
    ['metadata.annotations[example.com/token]', 'metadata.annotations[example.com/token]'],
    ['metadata.annotations[a: "b"]', 'metadata.annotations[…]'],
    ['.metadata.ownerReferences[uid="a"].name', '.metadata.ownerReferences[…]'],
    ['.metadata.password', '.metadata.…'],
  ]
  for (const [field, shown] of fields) {
    t.equal(secretField(field), shown, field)
    t.equal(secretField(shown), shown, `${shown} stays`)
  }
  t.equal(shownField({ group: '', kind: 'secret' }, '.data.a'), '.data.…')
  t.equal(shownField({ group: 'bitnami.com', kind: 'SealedSecret' }, '.spec.encryptedData.a'), '.spec.encryptedData.a')
})

t.test('of the annotations of a Secret only agentk’s own are shown', async (t) => {
  t.equal(shownAnnotation(true, 'helm.sh/hook', 'test'), '***')
  t.equal(shownAnnotation(true, 'agent.gitlab.com/prune', 'never'), 'never')
  t.equal(shownAnnotation(true, 'config.k8s.io/owning-inventory', '42-7'), '42-7')
  t.equal(shownAnnotation(true, 'agent.gitlab.com.example.com/a', 'b'), '***')
  t.equal(shownAnnotation(false, 'helm.sh/hook', 'test'), 'test')
})

t.test('a text that may make a Secret, whatever else it is', async (t) => {
  const secrets = [
    'kind: Secret',
    'kind: "Secret"',
    "'kind' : 'secret'",
    '{"apiVersion":"v1","kind":"Secret"}',
    'kind: &kind Secret',
    'kind: !!str Secret',
    'kind: *kind',
    'kind: "S\\x65cret"',
    'kind: {{ .Values.kind }}',
    'kind: SecretList',
    'kind: SecretGenerator',
    'target: { kind: Secret, name: a }',
    'secretGenerator:\n- name: a',
    '{{ include "common.secret" . }}',
    '{{- template "common.secrets" . }}',
  ]
  for (const text of secrets) t.equal(mayMakeSecret(text), true, text)
  const others = [
    '',
    'kind: SealedSecret',
    'kind: ExternalSecret',
    'kind: SecretProviderClass',
    'kind: Secret-Store',
    'kind: ConfigMap\ndata: { a: Secret }',
    'kind: Deployment # mounts a Secret\nsecret: a',
    '{"kind":"ConfigMap","data":{"a":"\\"b"}}',
    '{{ include "common.secretName" . }}',
  ]
  for (const text of others) t.equal(mayMakeSecret(text), false, text)
})
