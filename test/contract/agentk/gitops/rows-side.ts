import { toBinary } from '@bufbuild/protobuf'
import type { Test } from 'tap'
import { sourceRow } from '../../../../src/kas/modules/gitops/source-row.ts'
import { Phase, PhaseSchema, type SourceState, SourceStateSchema } from '../../../../src/proto/gen/gitops_states_pb.ts'
import type { SourceBlock } from '../../../../src/proto/gitops/schema.ts'
import { eventually } from '../../../support/eventually.ts'
import { exitOf } from './exit-of.ts'
import { ProjectKas, startGitops } from './gitops-side.ts'
import type { Ground } from './ground.ts'

/** Manifests and sources on a real API server. The test reads the rows of the sources. */

export const map = (name: string, metadata = '') => `
apiVersion: v1
kind: ConfigMap
metadata: { name: ${name}${metadata && `, ${metadata}`} }
data: { value: "1" }
`
export const namespace = (name: string, metadata = '') => `
apiVersion: v1
kind: Namespace
metadata: { name: ${name}${metadata && `, ${metadata}`} }
`
/** annotation for objects that are pruned without approval */
export const pruned = 'annotations: { agent.gitlab.com/prune: allow }'

export const source = {
  id: 'platform/shop',
  default_namespace: 'shop',
  prune_propagation_policy: 'background',
} as const

export class RowsSide {
  readonly #ground: Ground
  #projectId: bigint

  /** @param first - number of the first project; each start uses the next number */
  constructor(ground: Ground, first: bigint) {
    this.#ground = ground
    this.#projectId = first
  }

  /** @param client - default: the ground's client */
  async start(t: Test, blocks: readonly (SourceBlock | Record<string, unknown>)[], client = this.#ground.client) {
    const id = this.#projectId++
    const project = new ProjectKas(id)
    return { id: `42-${id}`, ...(await this.startAt(t, { id, project }, blocks, client)) }
  }

  /** Starts with an existing project. */
  async startAt(
    t: Test,
    { id, project }: { readonly id: bigint; readonly project: ProjectKas },
    blocks: readonly (SourceBlock | Record<string, unknown>)[],
    client = this.#ground.client,
  ) {
    const block = { manifest_projects: blocks as SourceBlock[] }
    const started = await startGitops(t, this.#ground, project, block, client)
    /** newest state of each source, by id */
    const rows = () => new Map(project.states.map((state) => [state.source, state] as const))
    const row = (name = '') => rows().get(`42-${id}${name}`)
    const shown = (name = '') => shownRow(row(name))
    const becomes = async (phase: Phase, name = '', later = ''): Promise<SourceState> => {
      const word = later || PhaseSchema.value[phase]?.name
      const isSo = () =>
        row(name)?.phase === phase &&
        shown(name)?.phase === word &&
        row(name)?.wanted === project.commit &&
        // SYNCED belongs to the commit before until the round begins
        (phase !== Phase.SYNCED || row(name)?.commit === project.commit)
      await eventually(isSo).catch((cause) => {
        const all = JSON.stringify([...rows().values()], (_, one) => (typeof one === 'bigint' ? String(one) : one))
        throw new Error(all, { cause })
      })
      return row(name) as SourceState
    }
    const exit = () => exitOf(rows().values())
    return { project, rows, row, shown, becomes, exit, ...started }
  }
}

/** Returns the row as kas shows it. */
export function shownRow(state: SourceState | undefined) {
  return state && sourceRow({ state: toBinary(SourceStateSchema, state), ageMs: 0, live: true }, () => undefined)
}
