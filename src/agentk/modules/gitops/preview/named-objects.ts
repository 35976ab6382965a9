import type { ObjectKey } from '../../../../kubernetes/key.ts'
import { at, textAt, textField } from '../../../../kubernetes/object.ts'
import type { Manifest } from '../manifests/manifest.ts'

const rbac = 'rbac.authorization.k8s.io'

/**
 * Returns the objects that the API server itself looks up when it makes an object: its answer shows whether they exist.
 * Owners are not among them (`ownersOf`), nor is the namespace.
 */
export function namedObjects({ key, object }: Pick<Manifest, 'key' | 'object'>): readonly ObjectKey[] {
  const { group, kind, namespace } = key
  if (group === '' && kind === 'Pod') {
    const named = [
      { group: '', kind: 'ServiceAccount', namespace, name: textAt(object, 'spec.serviceAccountName') },
      { group: '', kind: 'ServiceAccount', namespace, name: textAt(object, 'spec.serviceAccount') },
      {
        group: 'scheduling.k8s.io',
        kind: 'PriorityClass',
        namespace: '',
        name: textAt(object, 'spec.priorityClassName'),
      },
      { group: 'node.k8s.io', kind: 'RuntimeClass', namespace: '', name: textAt(object, 'spec.runtimeClassName') },
    ]
    return named.filter(({ name }) => name !== '')
  }
  if (group !== rbac || !(kind === 'RoleBinding' || kind === 'ClusterRoleBinding')) return []
  const ref = at(object, 'roleRef')
  const [role, name] = [textField(ref, 'kind'), textField(ref, 'name')]
  if (name === '') return []
  return [{ group: rbac, kind: role, namespace: role === 'Role' ? namespace : '', name }]
}
