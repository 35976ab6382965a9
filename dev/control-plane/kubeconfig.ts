/** User of a kubeconfig; files are named by absolute path. */
export type KubeconfigUser =
  | { token: string }
  | { tokenFile: string }
  | { certificateFile: string; keyFile: string; as?: Impersonated }

/** Identity that kubectl asks the API server to impersonate. */
export interface Impersonated {
  username: string
  groups?: readonly string[]
  uid?: string
  extra?: Readonly<Record<string, readonly string[]>>
}

/** Authority of the server's certificate: absolute path of a file, or its content, both PEM. */
export type KubeconfigAuthority = { caFile: string } | { authority: string }

export type KubeconfigOptions = KubeconfigAuthority & {
  /** name of its context, cluster and user; default `kas` */
  name?: string
  /** URL */
  server: string
  user: KubeconfigUser
  namespace?: string
}

/** Returns a kubeconfig with one cluster and one user, as JSON (which is YAML). */
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
