import t from 'tap'
import { hookOf, webhooksOfHooks } from '../../../../../../src/agentk/modules/gitops/manifests/hooks.ts'
import type { Manifest } from '../../../../../../src/agentk/modules/gitops/manifests/manifest.ts'

const object = (annotations: Readonly<Record<string, string>>) => ({
  kind: 'Job',
  metadata: { name: 'a', annotations },
})

t.test('hooks that are never run are not made, others are; what is none is none', async (t) => {
  const argo = 'argocd.argoproj.io/hook'
  const helm = 'helm.sh/hook'
  const expected: readonly (readonly [Readonly<Record<string, string>>, boolean | undefined])[] = [
    [{}, undefined],
    [{ [argo]: '' }, undefined],
    [{ [argo]: 'PreSync' }, true],
    [{ [argo]: 'PreSync,SyncFail' }, true],
    [{ [argo]: 'SyncFail' }, false],
    [{ [argo]: 'PostDelete, SyncFail' }, false],
    [{ [argo]: 'PreDelete' }, false],
    [{ [argo]: 'Skip' }, false],
    [{ [argo]: 'Sync,Skip' }, false],
    [{ [helm]: 'pre-install,pre-upgrade' }, true],
    [{ [helm]: 'post-install,post-delete' }, true],
    [{ [helm]: 'pre-delete' }, false],
    [{ [helm]: 'post-rollback,test' }, false],
    [{ [helm]: 'test-success' }, false],
    [{ [helm]: 'crd-install' }, true],
  ]
  for (const [annotations, isMade] of expected) {
    t.equal(hookOf(object(annotations))?.isMade, isMade, JSON.stringify(annotations))
  }
  t.equal(hookOf(object({ [helm]: 'test' }))?.text, 'helm.sh/hook: test')
  const secret = { ...object({ [helm]: 'test' }), apiVersion: 'v1', kind: 'Secret' }
  t.strictSame(hookOf(secret), { text: 'helm.sh/hook: ***', isMade: false }, 'of a Secret no value is shown')
})

t.test('a webhook whose certificate only hooks bring refuses the commit', async (t) => {
  const manifest = (webhook: object, annotations: object = {}, kind = 'ValidatingWebhookConfiguration'): Manifest => ({
    key: { group: 'admissionregistration.k8s.io', kind, namespace: '', name: 'w' },
    version: 'v1',
    object: { kind, metadata: { name: 'w', annotations }, webhooks: [webhook] },
    file: 'a.yaml',
    line: 3,
    digest: 'd',
  })
  const service = { service: { name: 'w', namespace: 'shop' } }
  const of = (one: Manifest, hooks = ['Job shop/create (helm.sh/hook: pre-install)']) => webhooksOfHooks([one], hooks)
  t.match(of(manifest({ clientConfig: service })), [
    { file: 'a.yaml', line: 3, text: /only hooks .*Job shop\/create.*hooks: skip/ },
  ])
  t.equal(of(manifest({ clientConfig: service }, {}, 'MutatingWebhookConfiguration')).length, 1)
  t.equal(of(manifest({ clientConfig: service }), []).length, 0, 'there are no hooks')
  t.equal(of(manifest({ clientConfig: service, failurePolicy: 'Ignore' })).length, 0)
  t.equal(of(manifest({ clientConfig: { ...service, caBundle: 'YQ==' } })).length, 0)
  t.equal(of(manifest({ clientConfig: { url: 'https://example.com' } })).length, 0)
  t.equal(of(manifest({ clientConfig: service }, { 'cert-manager.io/inject-ca-from': 'shop/w' })).length, 0)
})
