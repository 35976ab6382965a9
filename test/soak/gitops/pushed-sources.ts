import { stringify } from 'yaml'
import type { LocalReplica } from '../../../dev/start/local-replica.ts'
import type { GitPushes } from '../../support/git-pushes.ts'
import type { Seeded } from '../../support/seeded.ts'

/** branches of the agent's project */
const branches = ['east', 'north', 'south', 'west'] as const
/** ConfigMaps that each keeps, and of more that come and go one at a time */
const keptMaps = 8
const passingMaps = 3
/** of the kept ones, with each commit */
const changedMaps = 3
export const soakLabel = 'soak.example.com/source'

/** each branch has a namespace of its name */
export const namespaces: readonly string[] = branches

export const configuration = {
  gitops: {
    manifest_projects: branches.map((branch) => ({
      name: branch,
      ref: { branch },
      paths: [{ glob: 'maps/*.yaml' }],
      prune_propagation_policy: 'background', // an API server alone has nobody who would end another one
    })),
  },
}

/** Sources of one project, and what Git holds of each at its last commit. */
export class PushedSources {
  readonly #pushes: GitPushes
  readonly #seeded: Seeded
  /** by branch: numbers of pushes by ConfigMap */
  readonly #held = new Map<string, Map<string, number>>(branches.map((branch) => [branch, new Map()]))
  /** pushes so far; each of its objects says the one that it comes from */
  count = 0
  /** pushes of which no replica could be told */
  untold = 0

  constructor(pushes: GitPushes, seeded: Seeded) {
    this.#pushes = pushes
    this.#seeded = seeded
  }

  /** The first commit of each branch, of which nobody is told. */
  async begin(): Promise<void> {
    const all = Array.from({ length: keptMaps }, (_, i) => `kept-${i}`)
    for (const branch of branches) await this.#commit(branch, all)
  }

  /** To some branch. */
  async push(replicas: readonly LocalReplica[]): Promise<void> {
    await this.#commit(this.#seeded.pick(branches), this.#someKept())
    await this.tell(replicas)
  }

  /** One to each: what others wrote over is written again. */
  async pushAll(replicas: readonly LocalReplica[]): Promise<void> {
    for (const branch of branches) await this.#commit(branch, this.#someKept())
    await this.tell(replicas)
  }

  /** By ConfigMap, what the last commit of the branch holds. */
  held(branch: string): ReadonlyMap<string, number> {
    return this.#held.get(branch) ?? new Map()
  }

  /** One of a branch that is always there. */
  kept(): { namespace: string; name: string } {
    return { namespace: this.#seeded.pick(branches), name: `kept-${this.#seeded.int(keptMaps)}` }
  }

  #someKept(): string[] {
    return Array.from({ length: changedMaps }, () => `kept-${this.#seeded.int(keptMaps)}`)
  }

  async #commit(branch: string, changed: readonly string[]): Promise<void> {
    const held = this.#held.get(branch) as Map<string, number>
    this.count += 1
    const files: Record<string, string | null> = {}
    for (const name of [...held.keys()].filter((one) => one.startsWith('passing-'))) {
      held.delete(name)
      files[fileOf(name)] = null
    }
    for (const name of [...changed, `passing-${this.count % passingMaps}`]) {
      held.set(name, this.count)
      files[fileOf(name)] = manifest(branch, name, this.count)
    }
    await this.#pushes.commit(files, branch)
  }

  /** One of the replicas, of what was pushed. Without any, nobody. */
  async tell(replicas: readonly LocalReplica[]): Promise<void> {
    if (replicas.length === 0) return
    const told = this.#pushes.tell(this.#seeded.pick(replicas).ports.rails)
    await told.catch(() => {
      this.untold += 1 // a replica that has been killed: the push is found by polls
    })
  }
}

const fileOf = (name: string) => `maps/${name}.yaml`

function manifest(branch: string, name: string, push: number): string {
  const metadata = { name, namespace: branch, labels: { [soakLabel]: branch } }
  return stringify({ apiVersion: 'v1', kind: 'ConfigMap', metadata, data: { push: String(push) } })
}
