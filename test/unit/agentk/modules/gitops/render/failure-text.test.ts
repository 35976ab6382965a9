import t from 'tap'
import { failureText } from '../../../../../../src/agentk/modules/gitops/render/failure-text.ts'

const filesOf = (files: Readonly<Record<string, string>>) =>
  Object.entries(files).map(([path, text]) => ({ path, data: Buffer.from(text) }))
const kustomize = { program: '/usr/bin/kustomize', args: ['build', './prod'] }
const helm = { program: '/opt/helm', args: ['template', 'shop', './charts/shop', '--namespace', 'shop'] }
const hidden = {
  kustomize: 'kustomize fails. Its message may quote a Secret, and is not shown: `kustomize build ./prod` prints it',
  helm: 'helm fails. Its message may quote a Secret, and is not shown: `helm template shop ./charts/shop` prints it',
}
const secret = 'apiVersion: v1\nkind: Secret\nstringData: { password: pw }\n'

t.test('a message that names a Secret, or a file that makes one, is not shown', async (t) => {
  const chart = filesOf({
    'charts/shop/templates/db.yaml': secret,
    'charts/shop/templates/web.yaml': 'kind: Deployment\n',
    'charts/shop/templates/any.yaml': 'kind: {{ .Values.kind }}\n',
    'charts/shop/templates/lib.yaml': '{{ include "common.secret" . }}\n',
  })
  const at = (file: string) =>
    `Error: YAML parse error on shop/templates/${file}: mapping key "password" already defined`
  for (const file of ['db.yaml', 'any.yaml', 'lib.yaml', 'charts/x/templates/db-secret.yaml'])
    t.equal(failureText(at(file), helm, chart), hidden.helm, file)
  t.equal(failureText(at('web.yaml'), helm, chart), at('web.yaml'))
  t.equal(failureText(at('x/templates/sealed.yaml'), helm, chart), at('x/templates/sealed.yaml'))

  const folder = filesOf({ 'prod/kustomization.yaml': 'resources: [a.yaml, b.yaml]', 'prod/a.yaml': secret })
  const about = (what: string) => `Error: ${what}: wrong Node Kind: value: {pw}`
  t.equal(failureText(about("path 'a.yaml'"), kustomize, folder), hidden.kustomize)
  t.equal(failureText(about('Secret.v1.[noGrp]/db.[noNs]'), kustomize, folder), hidden.kustomize)
  const sealed = filesOf({ 'prod/kustomization.yaml': 'resources: [b.yaml]', 'prod/b.yaml': 'kind: SealedSecret\n' })
  const other = about("path 'b.yaml', SealedSecret.v1.bitnami.com/db")
  t.equal(failureText(other, kustomize, sealed), other)
})

t.test('kustomize often names no file: all count where it quotes content', async (t) => {
  for (const text of [
    'secretGenerator: [{ name: a, literals: [pw] }]',
    'SecretGenerator: [{ name: a, literals: [pw] }]',
    'patches: [{ target: { kind: Secret }, patch: "[]" }]',
  ]) {
    const files = filesOf({ 'prod/kustomization.yaml': 'resources: [../base]', 'base/Kustomization': text })
    t.equal(failureText('invalid literal source pw, expected key=value', kustomize, files), hidden.kustomize, text)
    t.equal(failureText('no such chart', helm, files), 'no such chart')
  }
  const files = filesOf({ 'prod/kustomization.yaml': 'resources: [a.yaml]', 'prod/a.yaml': secret })
  for (const text of [
    'replace operation does not apply: doc is missing path: "/data/pw": missing value',
    "error in remove for path: '/data/pw'",
    'configmap a illegally repeats the key "pw"',
    'wrong Node Kind for expected: MappingNode was ScalarNode: value: {pw}',
    "yaml: unknown anchor 'pw' referenced",
    'unable to find or create field "data.pw" in replacement target',
  ])
    t.equal(failureText(text, kustomize, files), hidden.kustomize, text)
  const absent = 'lstat prod/b.yaml: no such file or directory'
  t.equal(failureText(absent, kustomize, files), absent)
})

t.test('values that break a schema, or a type of YAML, are not shown', async (t) => {
  t.equal(
    failureText("values don't meet the schema:\n- at '/a': 'p\\'w' does not match pattern '^x$'", helm, []),
    "values don't meet the schema:\n- at '/a': *** does not match pattern '^x$'",
  )
  t.equal(
    failureText('yaml: line 1: cannot unmarshal !!str `pw` into map[string]interface {}', helm, []),
    'yaml: line 1: cannot unmarshal !!str *** into map[string]interface {}',
  )
})
