import { stringify } from 'yaml'
import type { LocalReplica } from '../../../dev/start/local-replica.ts'
import type { GitPushes } from '../../support/git-pushes.ts'
import type { Seeded } from '../../support/seeded.ts'

/** branches of the agent's project */
const branches = ['east', 'north', 'south', 'west'] as const
/** ConfigMaps that each branch keeps, and those that come and go one at a time */
const keptMaps = 8
const passingMaps = 3
/** kept ConfigMaps that each commit changes */
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
      prune_propagation_policy: 'background', // an API server alone has no garbage collector
    })),
  },
}

/** Sources of one project, and Git's content of each at its last commit. */
export class PushedSources {
  readonly #pushes: GitPushes
  readonly #seeded: Seeded
  /** number of the push that wrote each ConfigMap, by branch */
  readonly #held = new Map<string, Map<string, number>>(branches.map((branch) => [branch, new Map()]))
  /** pushes so far; each ConfigMap contains the number of its push */
  count = 0
  /** pushes of which no replica could be notified */
  untold = 0

  constructor(pushes: GitPushes, seeded: Seeded) {
    this.#pushes = pushes
    this.#seeded = seeded
  }

  /** Makes the first commit of each branch, without a notification. */
  async begin(): Promise<void> {
    const all = Array.from({ length: keptMaps }, (_, i) => `kept-${i}`)
    for (const branch of branches) await this.#commit(branch, all)
  }

  /** Pushes to some branch. */
  async push(replicas: readonly LocalReplica[]): Promise<void> {
    await this.#commit(this.#seeded.pick(branches), this.#someKept())
    await this.tell(replicas)
  }

  /** Pushes to each branch, so that overwritten ConfigMaps are written again. */
  async pushAll(replicas: readonly LocalReplica[]): Promise<void> {
    for (const branch of branches) await this.#commit(branch, this.#someKept())
    await this.tell(replicas)
  }

  /** Numbers of pushes by ConfigMap, at the last commit of the branch. */
  held(branch: string): ReadonlyMap<string, number> {
    return this.#held.get(branch) ?? new Map()
  }

  /** Some ConfigMap that its branch always has. */
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

  /** Notifies one of the replicas of the push; without any, none. */
  async tell(replicas: readonly LocalReplica[]): Promise<void> {
    if (replicas.length === 0) return
    const told = this.#pushes.tell(this.#seeded.pick(replicas).ports.rails)
    await told.catch(() => {
      this.untold += 1 // the replica was killed: polls find the push
    })
  }
}

const fileOf = (name: string) => `maps/${name}.yaml`

function manifest(branch: string, name: string, push: number): string {
  const metadata = { name, namespace: branch, labels: { [soakLabel]: branch } }
  return stringify({ apiVersion: 'v1', kind: 'ConfigMap', metadata, data: { push: String(push) } })
}
