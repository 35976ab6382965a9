import { randomUUID, sign } from 'node:crypto'
import type { ApiClient } from './api-client.ts'

/** issuer and audience of service account tokens at this control plane */
export const issuer = 'https://kubernetes.default.svc'

export interface ServiceAccount {
  namespace: string
  name: string
  uid: string
}

/**
 * Creates a service account with the rights of a ClusterRole everywhere.
 *
 * @param options.clusterRole - default `cluster-admin`
 */
export async function createServiceAccount(
  admin: ApiClient,
  options: { namespace: string; name: string; clusterRole?: string },
): Promise<ServiceAccount> {
  const { namespace, name, clusterRole = 'cluster-admin' } = options
  const account = await admin.create(`/api/v1/namespaces/${namespace}/serviceaccounts`, { metadata: { name } })
  await admin.create('/apis/rbac.authorization.k8s.io/v1/clusterrolebindings', {
    metadata: { name: `${namespace}-${name}` },
    roleRef: { apiGroup: 'rbac.authorization.k8s.io', kind: 'ClusterRole', name: clusterRole },
    subjects: [{ kind: 'ServiceAccount', namespace, name }],
  })
  return { namespace, name, uid: account.metadata.uid }
}

/** time after its `exp` in which the API server still accepts a token (go-jose's leeway) */
const leewayMs = 60_000

export interface TokenOptions {
  account: ServiceAccount
  /**
   * time in which the API server accepts it, in whole seconds; plus up to 10 s in which it caches its checks. So `exp`
   * is 60 s before that end, perhaps in the past.
   */
  lifeMs: number
}

/**
 * Returns a token as the API server would sign it, but with any lifetime: by itself it allows no less than 10 minutes.
 *
 * @param key - PEM of the key that the API server's check uses
 */
export function signServiceAccountToken(key: string, options: TokenOptions): string {
  const { namespace, name, uid } = options.account
  const expires = Math.floor((Date.now() + options.lifeMs - leewayMs) / 1000)
  const issued = Math.min(Math.floor(Date.now() / 1000), expires - 600)
  const head = { alg: 'RS256', typ: 'JWT' }
  const claims = {
    iss: issuer,
    aud: [issuer],
    sub: `system:serviceaccount:${namespace}:${name}`,
    iat: issued,
    nbf: issued,
    exp: expires,
    jti: randomUUID(),
    'kubernetes.io': { namespace, serviceaccount: { name, uid } },
  }
  const signed = [head, claims].map((part) => Buffer.from(JSON.stringify(part)).toString('base64url')).join('.')
  return `${signed}.${sign('RSA-SHA256', Buffer.from(signed), key).toString('base64url')}`
}
