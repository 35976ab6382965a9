import { stringify } from 'yaml'
import type { ApiClient } from '../../dev/control-plane/api-client.ts'
import type { SourceBlock } from '../../src/proto/gitops/schema.ts'
import type { GitPushes } from '../support/git-pushes.ts'

/** namespace of good tenants' views and source */
export const goodNamespace = 'shop'
const branch = 'shop'
const name = 'pushed'
const maps = `/api/v1/namespaces/${goodNamespace}/configmaps`

/** A source in the agent's own project. */
export const goodSource: SourceBlock = {
  name: 'shop',
  ref: { branch },
  paths: [{ glob: 'maps/*.yaml' }],
  default_namespace: goodNamespace,
  namespaces: [goodNamespace],
  prune_propagation_policy: 'background',
}

export interface GoodSourceComponents {
  readonly pushes: GitPushes
  readonly cluster: ApiClient
  /** port of the replica that gets the push events */
  readonly railsPort: number
}

/** A source of good tenants, who push to it and wait for the result. */
export class GoodSource {
  readonly #components: GoodSourceComponents

  constructor(components: GoodSourceComponents) {
    this.#components = components
  }

  /** @returns ms from the push to its object in the cluster. @throws the signal's reason */
  async push(number: number, signal: AbortSignal): Promise<number> {
    const { pushes, cluster, railsPort } = this.#components
    const commit = `${number}`
    await pushes.commit({ [`maps/${name}.yaml`]: manifest(commit) }, branch)
    const began = performance.now()
    const isApplied = ({ metadata, data }: { metadata?: { name?: string }; data?: { push?: string } }) =>
      metadata?.name === name && data?.push === commit
    const [at] = await Promise.all([
      cluster.until(maps, isApplied, signal).then(() => performance.now()),
      pushes.tell(railsPort),
    ])
    return at - began
  }
}

function manifest(push: string): string {
  return stringify({ apiVersion: 'v1', kind: 'ConfigMap', metadata: { name }, data: { push } })
}
