import { toBinary } from '@bufbuild/protobuf'
import type { Test } from 'tap'
import { sourceRow } from '../../../../src/kas/modules/gitops/source-row.ts'
import { Phase, PhaseSchema, type SourceState, SourceStateSchema } from '../../../../src/proto/gen/gitops_states_pb.ts'
import type { SourceBlock } from '../../../../src/proto/gitops/schema.ts'
import { eventually } from '../../../support/eventually.ts'
import { exitOf } from './exit-of.ts'
import { ProjectKas, startGitops } from './gitops-side.ts'
import type { Ground } from './ground.ts'

/** Manifests, and sources whose rows a test reads, on a real API server. */

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
/** Goes without approval. */
export const pruned = 'annotations: { agent.gitlab.com/prune: allow }'

export const source = {
  id: 'platform/shop',
  default_namespace: 'shop',
  prune_propagation_policy: 'background',
} as const

export class RowsSide {
  readonly #ground: Ground
  #projectId: bigint

  /** @param first - number of a project: each start takes the next one */
  constructor(ground: Ground, first: bigint) {
    this.#ground = ground
    this.#projectId = first
  }

  /** @param client - in place of the ground's */
  async start(t: Test, blocks: readonly (SourceBlock | Record<string, unknown>)[], client = this.#ground.client) {
    const id = this.#projectId++
    const project = new ProjectKas(id)
    return { id: `42-${id}`, ...(await this.startAt(t, { id, project }, blocks, client)) }
  }

  /** With a project that there is already. */
  async startAt(
    t: Test,
    { id, project }: { readonly id: bigint; readonly project: ProjectKas },
    blocks: readonly (SourceBlock | Record<string, unknown>)[],
    client = this.#ground.client,
  ) {
    const block = { manifest_projects: blocks as SourceBlock[] }
    const started = await startGitops(t, this.#ground, project, block, client)
    /** the newest of each, by id */
    const rows = () => new Map(project.states.map((state) => [state.source, state] as const))
    const row = (name = '') => rows().get(`42-${id}${name}`)
    const shown = (name = '') => shownRow(row(name))
    const becomes = async (phase: Phase, name = '', later = ''): Promise<SourceState> => {
      const word = later || PhaseSchema.value[phase]?.name
      const isSo = () =>
        row(name)?.phase === phase &&
        shown(name)?.phase === word &&
        row(name)?.wanted === project.commit &&
        (phase !== Phase.SYNCED || row(name)?.commit === project.commit) // until its round begins, SYNCED is of the commit before
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

/** As kas shows it. */
export function shownRow(state: SourceState | undefined) {
  return state && sourceRow({ state: toBinary(SourceStateSchema, state), ageMs: 0, live: true }, () => undefined)
}
