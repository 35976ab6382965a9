/** Who a kubeconfig acts as; files are named by absolute path. */
export type KubeconfigUser =
  | { token: string }
  | { tokenFile: string }
  | { certificateFile: string; keyFile: string; as?: Impersonated }

/** What kubectl asks the API server to take it for. */
export interface Impersonated {
  username: string
  groups?: readonly string[]
  uid?: string
  extra?: Readonly<Record<string, readonly string[]>>
}

export interface KubeconfigOptions {
  /** URL */
  server: string
  /** absolute path, PEM */
  caFile: string
  user: KubeconfigUser
  namespace?: string
}

/** A kubeconfig with one cluster and one user, as JSON (which is YAML). */
export function kubeconfigText(options: KubeconfigOptions): string {
  const name = 'kas'
  const context = { cluster: name, user: name, ...(options.namespace ? { namespace: options.namespace } : {}) }
  return JSON.stringify({
    apiVersion: 'v1',
    kind: 'Config',
    'current-context': name,
    clusters: [{ name, cluster: { server: options.server, 'certificate-authority': options.caFile } }],
    users: [{ name, user: userFields(options.user) }],
    contexts: [{ name, context }],
  })
}

function userFields(user: KubeconfigUser): Record<string, unknown> {
  if ('token' in user) return { token: user.token }
  if ('tokenFile' in user) return { tokenFile: user.tokenFile }
  const { certificateFile, keyFile, as } = user
  return {
    'client-certificate': certificateFile,
    'client-key': keyFile,
    ...(as && { as: as.username, 'as-groups': as.groups, 'as-uid': as.uid, 'as-user-extra': as.extra }),
  }
}
