import { stringify } from 'yaml'

export interface KubeconfigOptions {
  readonly name: string
  readonly server: string
  /** PEM of the authority that the server's certificate is checked against */
  readonly authority: string
  readonly token: string
  readonly namespace?: string
}

/** A kubeconfig with one context, everything inside: it needs no other file. */
export function kubeconfigOf({ name, server, authority, token, namespace }: KubeconfigOptions): string {
  return stringify({
    apiVersion: 'v1',
    kind: 'Config',
    'current-context': name,
    clusters: [{ name, cluster: { server, 'certificate-authority-data': Buffer.from(authority).toString('base64') } }],
    users: [{ name, user: { token } }],
    contexts: [{ name, context: { cluster: name, user: name, ...(namespace ? { namespace } : {}) } }],
  })
}
