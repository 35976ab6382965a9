import { chmod, mkdir, readFile, writeFile } from 'node:fs/promises'
import { join, resolve } from 'node:path'
import { parse, stringify } from 'yaml'
import type { ApiClient } from '../../dev/control-plane/api-client.ts'
import { ControlPlane } from '../../dev/control-plane/control-plane.ts'
import { kubeconfigText } from '../../dev/control-plane/kubeconfig.ts'
import { createServiceAccount } from '../../dev/control-plane/service-account.ts'
import { createProjectRepository } from '../../dev/start/project-repository.ts'
import { agent, files } from '../../dev/start/settings.ts'
import { tokenHash } from '../../src/lib/token-hash.ts'
import type { SourceBlock } from '../../src/proto/gitops/schema.ts'
import { GitPushes } from '../support/git-pushes.ts'
import { goodNamespace } from './good-source.ts'
import { newToken } from './new-token.ts'
import type { SharedCluster } from './stage.ts'

const gitSync = resolve(import.meta.dirname, '../../deploy/kubernetes/agentk-gitops/0-gitsync.yaml')
const rbac = '/apis/rbac.authorization.k8s.io/v1'
const dayMs = 24 * 3_600_000
const namespace = 'mallory'
const project = { id: 9, path: 'mallory/manifests' } as const
/** The attacker's sources are limited to their own namespace, as is usual in shared clusters. */
const own = { id: project.path, default_namespace: namespace, namespaces: [namespace] } as const

/** Sources of the attacker, one for each branch. */
export const evilSources: readonly SourceBlock[] = [
  { ...own, name: 'plain', ref: { branch: 'plain' }, paths: [{ glob: '**/*.yaml' }] },
  { ...own, name: 'kustomize', ref: { branch: 'kustomize' }, kustomize: { path: '.' } },
  { ...own, name: 'helm', ref: { branch: 'helm' }, helm: { chart: '.', release: 'mallory' } },
]

const map = (name: string) =>
  stringify({ apiVersion: 'v1', kind: 'ConfigMap', metadata: { name }, data: { made: 'first' } })
/** First files of each branch. */
const firstFiles: Readonly<Record<string, Readonly<Record<string, string>>>> = {
  plain: { 'map.yaml': map('plain') },
  kustomize: { 'kustomization.yaml': stringify({ resources: ['map.yaml'] }), 'map.yaml': map('kustomize') },
  helm: {
    'Chart.yaml': stringify({ apiVersion: 'v2', name: 'mallory', version: '1.0.0' }),
    'templates/map.yaml': map('helm'),
  },
}

/** Replaces helm: prints templates unchanged, below the headers that helm writes. */
const helmScript = `#!/bin/sh
for file in "$3"/templates/*; do
  printf -- '---\\n# Source: chart/templates/%s\\n' "\${file##*/}"
  cat "$file"
done
`

/** A pod of 512 MiB: Node takes half of it for its heap, and agentk's limits depend on it. */
const podBytes = 512 * 1024 * 1024
const podOptions = [
  `--max-old-space-size=${podBytes / 2 / 1024 / 1024}`,
  `--import=data:text/javascript,process.constrainedMemory=()=>${podBytes}`,
].join(' ')

/**
 * A real API server alone, without controllers and nodes, so no pod runs a command. A good user has all rights there.
 * The user mallory has all rights in one namespace, and pushes to one project, which the agent has three sources of.
 */
export class SharedApiServer {
  /** absolute path of the kubeconfig of agentk's account */
  readonly kubeconfig: string
  readonly #controlPlane: ControlPlane
  readonly #assets: string
  #shared: SharedCluster | undefined
  #folder = ''

  private constructor(controlPlane: ControlPlane, { assets, kubeconfig }: { assets: string; kubeconfig: string }) {
    this.#controlPlane = controlPlane
    this.#assets = assets
    this.kubeconfig = kubeconfig
  }

  /** @param assets - value of KUBEBUILDER_ASSETS */
  static async start(assets: string): Promise<SharedApiServer> {
    const controlPlane = new ControlPlane({ assets, parts: 'api' })
    await controlPlane.start()
    try {
      await furnish(controlPlane.admin)
      return new SharedApiServer(controlPlane, { assets, kubeconfig: await agentkAccount(controlPlane) })
    } catch (error) {
      await controlPlane.stop()
      throw error
    }
  }

  /** Adds the users to the directory file, and makes the attacker's repository. */
  async prepare(folder: string): Promise<void> {
    const token = newToken()
    const repository = join(folder, 'mallory.git')
    await createProjectRepository(repository, { 'README.md': 'Manifests\n' })
    const secretFile = join(folder, files.secret)
    const pushes = new GitPushes({ repository, secretFile, project })
    for (const [branch, first] of Object.entries(firstFiles)) await pushes.commit(first, branch)
    pushes.close()
    const path = join(folder, files.directory)
    const directory = parse(await readFile(path, 'utf8'))
    directory.projects.push({ ...project, groups: [{ id: 9, path: 'mallory' }], git: { url: repository } })
    directory.agents.find(({ id }: { id: number }) => id === agent.id).reads = [project.id]
    const roles = { projects: { [project.id]: ['developer'] } }
    directory.users.push({ id: 7, username: 'mallory', tokens: [{ sha256: tokenHash(token) }], roles })
    await writeFile(path, stringify(directory), { mode: 0o600 })
    this.#folder = folder
    this.#shared = { namespace, userCredential: `pat:${agent.id}:${token}`, repository, project, secretFile }
  }

  /** Configuration in which users act as themselves. */
  get configuration(): string {
    const projects = [{ id: agent.project.path }, { id: project.path }]
    return stringify({ user_access: { access_as: { user: {} }, projects } })
  }

  /** Environment of agentk: the programs that render, in a small pod. */
  async environment(): Promise<Readonly<Record<string, string>>> {
    const folder = join(this.#folder, 'renderers')
    await mkdir(folder)
    await writeFile(join(folder, 'helm'), helmScript)
    await chmod(join(folder, 'helm'), 0o755)
    return { PATH: [process.env.PATH, this.#assets, folder].join(':'), NODE_OPTIONS: podOptions }
  }

  get shared(): SharedCluster {
    if (!this.#shared) throw new Error('nothing was prepared')
    return this.#shared
  }

  stop(patience?: AbortSignal): Promise<void> {
    return this.#controlPlane.stop(patience)
  }
}

/** Creates namespaces, the objects that controllers would create, rights, and an object that has a verdict. */
async function furnish(admin: ApiClient): Promise<void> {
  for (const name of [goodNamespace, namespace]) {
    await admin.create('/api/v1/namespaces', { metadata: { name } })
    await admin.create(`/api/v1/namespaces/${name}/serviceaccounts`, { metadata: { name: 'default' } })
  }
  const everything = { apiGroups: ['*'], resources: ['*'], verbs: ['*'] }
  await admin.create(`${rbac}/namespaces/${namespace}/roles`, { metadata: { name: 'owner' }, rules: [everything] })
  const roleRef = { apiGroup: 'rbac.authorization.k8s.io' }
  const user = (name: string) => ({ kind: 'User', apiGroup: 'rbac.authorization.k8s.io', name: `gitlab:user:${name}` })
  await admin.create(`${rbac}/namespaces/${namespace}/rolebindings`, {
    metadata: { name: 'owner' },
    roleRef: { ...roleRef, kind: 'Role', name: 'owner' },
    subjects: [user('mallory')],
  })
  await admin.create(`${rbac}/clusterrolebindings`, {
    metadata: { name: 'ada' },
    roleRef: { ...roleRef, kind: 'ClusterRole', name: 'cluster-admin' },
    subjects: [user('ada')],
  })
  await admin.create('/apis/apiextensions.k8s.io/v1/customresourcedefinitions', parse(await readFile(gitSync, 'utf8')))
  const labels = { app: 'web' }
  const template = { metadata: { labels }, spec: { containers: [{ name: 'main', image: 'none' }] } }
  await admin.create(`/apis/apps/v1/namespaces/${goodNamespace}/deployments`, {
    metadata: { name: 'web' },
    spec: { selector: { matchLabels: labels }, template },
  })
}

/** @returns path of a kubeconfig of an account with all rights */
async function agentkAccount(controlPlane: ControlPlane): Promise<string> {
  const { admin, server, caFile, folder } = controlPlane
  const account = await createServiceAccount(admin, { namespace: 'default', name: 'agentk' })
  const user = { token: controlPlane.signToken({ account, lifeMs: dayMs }) }
  const path = join(folder, 'agentk.kubeconfig')
  await writeFile(path, kubeconfigText({ server, caFile, user }), { mode: 0o600 })
  return path
}
