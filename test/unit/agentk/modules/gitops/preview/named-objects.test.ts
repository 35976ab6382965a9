import t from 'tap'
import { namedObjects } from '../../../../../../src/agentk/modules/gitops/preview/named-objects.ts'
import { keyName } from '../../../../../../src/kubernetes/key.ts'

const rbac = 'rbac.authorization.k8s.io'
const named = (group: string, kind: string, namespace: string, object: object) =>
  namedObjects({ key: { group, kind, namespace, name: 'a' }, object: { ...object } }).map(
    (key) => `${key.group}/${keyName(key)}`,
  )

t.test('a Pod names its account and its classes', async (t) => {
  const spec = { serviceAccountName: 'web', priorityClassName: 'high', runtimeClassName: 'gvisor' }
  t.equal(named('', 'Pod', 'shop', { spec }).length, 3)
  t.match(named('', 'Pod', 'shop', { spec })[0], /ServiceAccount.*web/)
  t.equal(named('', 'Pod', 'shop', { spec: { serviceAccount: 'old' } }).length, 1)
  t.strictSame(named('', 'Pod', 'shop', { spec: {} }), [])
  t.strictSame(named('apps', 'Deployment', 'shop', { spec: { template: { spec } } }), [])
})

t.test('a binding names its role', async (t) => {
  const binding = (kind: string, role: string) =>
    namedObjects({
      key: { group: rbac, kind, namespace: kind === 'RoleBinding' ? 'shop' : '', name: 'a' },
      object: { roleRef: { apiGroup: rbac, kind: role, name: 'view' } },
    })
  t.strictSame(binding('RoleBinding', 'Role'), [{ group: rbac, kind: 'Role', namespace: 'shop', name: 'view' }])
  t.strictSame(binding('RoleBinding', 'ClusterRole'), [
    { group: rbac, kind: 'ClusterRole', namespace: '', name: 'view' },
  ])
  t.strictSame(binding('ClusterRoleBinding', 'ClusterRole'), [
    { group: rbac, kind: 'ClusterRole', namespace: '', name: 'view' },
  ])
  t.strictSame(named('other.example.com', 'RoleBinding', 'shop', { roleRef: { kind: 'Role', name: 'b' } }), [])
})
