import assert from 'node:assert/strict'
import { type Identity, identities, type KubectlOperation, type KubectlSide } from './kubectl-side.ts'

/** User that the cluster sees for each identity. */
export type Users = Readonly<Record<Identity, string>>

/**
 * Checks that each identity is known as its user, and has exactly that user's rights: `list pods` by a role in the
 * namespace, bound by `bindReader`. The agent itself has all rights.
 */
export const identityOperations = (users: Users): KubectlOperation[] =>
  identities.flatMap((identity) => [
    { name: `auth whoami, ${identity}`, run: (side: KubectlSide) => whoAmI(side, identity, users[identity]) },
    { name: `auth can-i, ${identity}`, run: (side: KubectlSide) => canI(side, identity) },
  ])

/** @param users - users who get the right to list pods in the namespace of `kubectl` */
export async function bindReader(kubectl: KubectlSide['kubectl'], users: readonly string[]): Promise<void> {
  await kubectl.ok(['create', 'role', 'reader', '--verb=list', '--resource=pods'])
  const flags = users.map((user) => `--user=${user}`)
  await kubectl.ok(['create', 'rolebinding', 'reader', '--role=reader', ...flags])
}

async function whoAmI(side: KubectlSide, identity: Identity, user: string): Promise<string> {
  const kubectl = side.kubectl.with({ kubeconfig: side.kubeconfigs[identity] })
  const review = JSON.parse(await kubectl.ok(['auth', 'whoami', '-o', 'json']))
  const { username, groups, uid, extra } = review.status.userInfo
  assert.equal(username, user)
  return JSON.stringify({ username, groups, uid, extra: Object.entries(extra ?? {}).sort() })
}

async function canI(side: KubectlSide, identity: Identity): Promise<string> {
  const kubectl = side.kubectl.with({ kubeconfig: side.kubeconfigs[identity] })
  const list = await kubectl.run(['auth', 'can-i', 'list', 'pods'])
  const remove = await kubectl.run(['auth', 'can-i', 'delete', 'pods'])
  assert.equal(list.stdout.toString(), 'yes\n')
  assert.equal(remove.stdout.toString(), identity === 'agent' ? 'yes\n' : 'no\n')
  const both = await kubectl.run(['get', 'pods,secrets', '-o', 'name'])
  assert.match(both.stdout.toString(), /^pod\/web-/m)
  assert.equal(both.code, identity === 'agent' ? 0 : 1, both.stderr)
  return `${list.code} ${remove.code} ${both.stderr.replaceAll(side.kubectl.namespace, 'NAMESPACE')}`
}
