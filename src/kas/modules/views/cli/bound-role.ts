type Groups = ReadonlyMap<string, readonly string[]>

/**
 * The manifest of a ClusterRole that may get, list and watch, and of its binding.
 *
 * @param groups - by API group: names in paths. They stand in the YAML as they are
 */
export function boundRole(
  name: string,
  groups: Groups,
  account: { readonly namespace: string; readonly name: string },
): string {
  return `apiVersion: rbac.authorization.k8s.io/v1
kind: ClusterRole
metadata:
  name: ${name}
${roleRules(groups)}---
apiVersion: rbac.authorization.k8s.io/v1
kind: ClusterRoleBinding
metadata:
  name: ${name}
roleRef: { apiGroup: rbac.authorization.k8s.io, kind: ClusterRole, name: ${name} }
subjects:
  - { kind: ServiceAccount, name: ${account.name}, namespace: ${account.namespace} }
`
}

/** `rules` of such a role. */
export function roleRules(groups: Groups): string {
  const rules = [...groups].map(([group, names]) => {
    const resources = names.map((one) => `      - ${one}\n`).join('')
    return `  - apiGroups: [${group === '' ? '""' : group}]\n    resources:\n${resources}    verbs: [get, list, watch]\n`
  })
  return `rules:\n${rules.join('')}`
}
