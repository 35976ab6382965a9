import { randomUUID, sign } from 'node:crypto'
import type { ApiClient } from './api-client.ts'

/** the issuer and the audience of service account tokens at this control plane */
export const issuer = 'https://kubernetes.default.svc'

export interface ServiceAccount {
  namespace: string
  name: string
  uid: string
}

/**
 * A service account with the rights of a ClusterRole everywhere.
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

/** how long after its `exp` the API server still takes a token (go-jose's leeway) */
const leewayMs = 60_000

export interface TokenOptions {
  account: ServiceAccount
  /**
   * how long the API server takes it, in whole seconds; plus up to 10 s in which it remembers what it checked.
   * So `exp` is 60 s before that end, perhaps in the past.
   */
  lifeMs: number
}

/**
 * A token as the API server itself would sign it, but with any life: by itself it allows no less than 10 minutes.
 *
 * @param key - PEM, of the pair that the API server checks tokens with
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
