import t from 'tap'
import { variableNotes } from '../../../../../../src/agentk/modules/gitops/manifests/flux-variables.ts'
import type { Manifest, ObjectTree } from '../../../../../../src/agentk/modules/gitops/manifests/manifest.ts'

/** Returns `${inner}`. */
const v = (inner: string) => `\${${inner}}`

const manifest = (name: string, object: ObjectTree, kind = 'ConfigMap'): Manifest => ({
  key: { group: '', kind, namespace: 'shop', name },
  version: 'v1',
  object: { apiVersion: 'v1', kind, metadata: { name }, ...object },
  file: 'a.yaml',
  line: 1,
  digest: 'd',
})
const secret = (text: string) => manifest('s', { data: { a: Buffer.from(text).toString('base64') } }, 'Secret')
const disabled = (place: string) => ({
  metadata: { [place]: { 'kustomize.toolkit.fluxcd.io/substitute': 'disabled' } },
  data: { a: v('x') },
})

t.test('variables as Flux has them are named, with what to do', async (t) => {
  const advice = 'write the values, or kustomize.toolkit.fluxcd.io/substitute: disabled on an object that is meant so'
  const cases: [ObjectTree, string][] = [
    [{ data: { cluster: v('cluster_name') } }, v('cluster_name')],
    [{ data: { a: `x-${v('A:=1')}-y` } }, v('A:=1')],
    [{ data: { a: v('region:-eu') } }, v('region:-eu')],
    [{ data: { a: `$${v('kept')}` } }, v('kept')],
    [{ spec: { rules: [{ host: `web.${v('domain')}` }] } }, v('domain')],
    [{ metadata: { name: `${v('env')}-web`, labels: {} } }, v('env')],
    [{ metadata: { annotations: { 'a/b': v('owner') } } }, v('owner')],
  ]
  for (const [object, name] of cases) {
    const text = `variables as of Flux's postBuild are not replaced in ConfigMap shop/a (${name}): ${advice}`
    t.strictSame(variableNotes([manifest('a', object)]), [text])
  }
  const hidden = `variables as of Flux's postBuild are not replaced in Secret shop/s: ${advice}`
  t.strictSame(variableNotes([secret(v('PASSWORD'))]), [hidden], 'a value of a Secret is not shown')
  const annotated = manifest('s', { metadata: { annotations: { a: v('token:=pw') } } }, 'Secret')
  t.strictSame(variableNotes([annotated]), [hidden], 'nor is one of its annotations')
  const many = Array.from({ length: 8 }, (_, i) => manifest(`m${i}`, { data: { a: v('v') } }))
  t.match(variableNotes(many)[0], /m4 \(\$\{v\}\) and 3 more objects: /)
})

t.test('what is none, or is meant so, is not named', async (t) => {
  const none: ObjectTree[] = [
    { data: { a: `$(HOME) $HOME $ {a} ${v('')} ${v('1a')} $\{a`, b: null } },
    { data: { 'run.sh': `#!/bin/sh\necho ${v('HOME')}\n` } },
    { data: { a: `\${a}${'x'.repeat(500)}` } },
    { spec: { containers: [{ command: ['sh', '-c', `echo ${v('HOME')}`], args: [v('A')] }] } },
    disabled('annotations'),
    disabled('labels'),
    {},
  ]
  for (const object of none) t.strictSame(variableNotes([manifest('a', object)]), [], JSON.stringify(object))
  t.strictSame(variableNotes([secret('plain'), secret(`a\n${v('b')}`)]), [])
})
