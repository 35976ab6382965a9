/**
 * The manifest of a ClusterRole that may get, list and watch, and of its binding.
 *
 * @param groups - by API group: names in paths. They stand in the YAML as they are
 */
export function boundRole(
  name: string,
  groups: ReadonlyMap<string, readonly string[]>,
  account: { readonly namespace: string; readonly name: string },
): string {
  const rules = [...groups].map(([group, names]) => {
    const resources = names.map((one) => `      - ${one}\n`).join('')
    return `  - apiGroups: [${group === '' ? '""' : group}]\n    resources:\n${resources}    verbs: [get, list, watch]\n`
  })
  return `apiVersion: rbac.authorization.k8s.io/v1
kind: ClusterRole
metadata:
  name: ${name}
rules:
${rules.join('')}---
apiVersion: rbac.authorization.k8s.io/v1
kind: ClusterRoleBinding
metadata:
  name: ${name}
roleRef: { apiGroup: rbac.authorization.k8s.io, kind: ClusterRole, name: ${name} }
subjects:
  - { kind: ServiceAccount, name: ${account.name}, namespace: ${account.namespace} }
`
}
