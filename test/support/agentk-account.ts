import { writeFile } from 'node:fs/promises'
import { join } from 'node:path'
import type { KubernetesObject } from '../../dev/control-plane/api-client.ts'
import type { ControlPlane } from '../../dev/control-plane/control-plane.ts'
import { kubeconfigText } from '../../dev/control-plane/kubeconfig.ts'
import { manifestsFolder, readManifest, readManifests } from './manifests.ts'

const rbac = '/apis/rbac.authorization.k8s.io/v1'
const collections: Readonly<Record<string, (namespace: string) => string>> = {
  Namespace: () => '/api/v1/namespaces',
  ServiceAccount: (namespace) => `/api/v1/namespaces/${namespace}/serviceaccounts`,
  Role: (namespace) => `${rbac}/namespaces/${namespace}/roles`,
  RoleBinding: (namespace) => `${rbac}/namespaces/${namespace}/rolebindings`,
  ClusterRole: () => `${rbac}/clusterroles`,
  ClusterRoleBinding: () => `${rbac}/clusterrolebindings`,
}

/** Returns the path of the collection of an object. @throws Error for a kind that no account needs */
export function collectionOf({ kind, metadata }: KubernetesObject): string {
  const collection = collections[kind]
  if (!collection) throw new Error(`${kind} is none of ${Object.keys(collections).join(', ')}`)
  return collection(metadata.namespace ?? '')
}

const namespace = 'agentk'
const name = 'agentk'

/** The part of a control plane that an account needs. */
export type AccountsPlane = Pick<ControlPlane, 'admin' | 'server' | 'caFile' | 'signToken'>

/**
 * Creates the account that the shipped manifests give agentk, with the rights of these folders and files. @returns path
 * of its kubeconfig
 */
export async function agentkAccount(controlPlane: AccountsPlane, path: string, names: string[]): Promise<string> {
  const { admin, server, caFile } = controlPlane
  const objects = names.flatMap((one) =>
    one.endsWith('.yaml') ? readManifest(join(manifestsFolder, one)) : readManifests(one),
  )
  for (const object of objects) {
    if (object.kind in collections) await admin.create(collectionOf(object), object)
  }
  const { metadata } = await admin.get(`/api/v1/namespaces/${namespace}/serviceaccounts/${name}`)
  const token = controlPlane.signToken({ account: { namespace, name, uid: metadata.uid }, lifeMs: 3_600_000 })
  await writeFile(path, kubeconfigText({ server, caFile, namespace, user: { token } }), { mode: 0o600 })
  return path
}
