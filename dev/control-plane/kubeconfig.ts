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

/** What the server's certificate is checked against: a file by absolute path, or its content, PEM both. */
export type KubeconfigAuthority = { caFile: string } | { authority: string }

export type KubeconfigOptions = KubeconfigAuthority & {
  /** of its context, cluster and user; default `kas` */
  name?: string
  /** URL */
  server: string
  user: KubeconfigUser
  namespace?: string
}

/** A kubeconfig with one cluster and one user, as JSON (which is YAML). */
export function kubeconfigText(options: KubeconfigOptions): string {
  const { name = 'kas' } = options
  const context = { cluster: name, user: name, ...(options.namespace ? { namespace: options.namespace } : {}) }
  const config = {
    apiVersion: 'v1',
    kind: 'Config',
    'current-context': name,
    clusters: [{ name, cluster: { server: options.server, ...authorityFields(options) } }],
    users: [{ name, user: userFields(options.user) }],
    contexts: [{ name, context }],
  }
  return `${JSON.stringify(config, null, 2)}\n`
}

function authorityFields(authority: KubeconfigAuthority): Record<string, string> {
  if ('caFile' in authority) return { 'certificate-authority': authority.caFile }
  return { 'certificate-authority-data': Buffer.from(authority.authority).toString('base64') }
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
