import { create, type MessageInitShape } from '@bufbuild/protobuf'
import type { AgentId } from '../../../call/call.ts'
import type { Clock } from '../../../lib/clock.ts'
import { KasError } from '../../../lib/errors.ts'
import { ageMs } from '../../../proto/age-ms.ts'
import { decodeMessage } from '../../../proto/decode.ts'
import { SourceStateSchema } from '../../../proto/gen/gitops_states_pb.ts'
import {
  Gitops,
  type SourceKey,
  SourceKeySchema,
  type SourceRequest,
  type SourceRequestSchema,
  type SourceResponse,
  SourceResponseSchema,
} from '../../../proto/gen/replica_gitops_pb.ts'
import { sourcePaths } from '../../../proto/gitops/source-paths.ts'
import { blockIn } from '../../agent-config/module-schema.ts'
import type { KasHost } from '../../module.ts'
import type { Peers } from '../../peers/peers.ts'
import { type FileChoice, readPaths } from './chosen-files.ts'
import { gitopsBlock } from './schema.ts'
import type { States } from './states.ts'

export interface SourceComponents {
  readonly states: Pick<States, 'of'>
  readonly agentConfig: Pick<KasHost['agentConfig'], 'followed'>
  readonly peers: Pick<Peers, 'broadcast'>
  readonly clock: Pick<Clock, 'now'>
}

/** A source whose changes are previewed. */
export interface PreviewSource {
  readonly id: string
  /** number of its project */
  readonly projectId: bigint
  /** as the file of the agent has its paths */
  readonly choice: FileChoice
  /** projects that may preview it beside its own; `none`: nobody may */
  readonly preview: 'none' | ReadonlySet<bigint>
}

/**
 * Finds a source by its id, among the sources that pods of the agent have reported to any replica and that its
 * configuration has.
 *
 * @throws KasError NOT_SERVED: there is none; AGENT_NOT_CONNECTED: no replica follows the configuration; MANIFESTS_REFUSED
 */
export async function findSource(components: SourceComponents, agentId: AgentId, id: string): Promise<PreviewSource> {
  const known = create(SourceResponseSchema, ownSource(components, { agentId, id }))
  const key = reportedKey(known.live ? [known] : [known, ...(await ask(components, { agentId, id }))])
  if (!key) throw noSource(id)
  const own = create(SourceResponseSchema, ownSource(components, { agentId, id, key }))
  const answers = [own, ...(await ask(components, { agentId, id, key }))]
  const [newest] = answers.filter(({ follows }) => follows).toSorted((one, other) => one.ageMs - other.ageMs)
  if (!newest) throw new KasError({ code: 'AGENT_NOT_CONNECTED', waitedMs: 0 })
  const { source } = newest
  if (!source) throw noSource(id)
  const preview = source.previewNone ? 'none' : new Set(source.previewProject)
  return { id, projectId: BigInt(id.split('-')[1] ?? 0), choice: readPaths(source.path), preview }
}

type Question = MessageInitShape<typeof SourceRequestSchema>

async function ask({ peers }: Pick<SourceComponents, 'peers'>, question: Question): Promise<readonly SourceResponse[]> {
  return [...(await peers.broadcast(Gitops.method.source, question)).values()]
}

/** Returns the key that a pod has reported: a project may have another path than before. */
function reportedKey(answers: readonly SourceResponse[]): SourceKey | undefined {
  return (answers.find(({ live }) => live) ?? answers.find(({ reported }) => reported))?.reported
}

/** Returns what this replica knows of a source. */
export function ownSource(
  { states, agentConfig, clock }: Omit<SourceComponents, 'peers'>,
  { agentId, id = '', key }: Pick<Partial<SourceRequest>, 'id' | 'key'> & { readonly agentId: bigint },
): MessageInitShape<typeof SourceResponseSchema> {
  const state = states.of(agentId as AgentId).get(id)
  const reported = state && keyIn(state.bytes)
  const followed = agentConfig.followed(agentId as AgentId)
  const { manifest_projects: sources = [] } = blockIn(followed?.good, gitopsBlock) ?? {}
  const source =
    key &&
    sources.find(({ id: project = followed?.agent.project.path ?? '', name = '' }) => {
      return project.toLowerCase() === key.project.toLowerCase() && name === key.name
    })
  const path = source && sourcePaths(source).map(pathMessage)
  const { preview } = source ?? {}
  return {
    ...(reported && { reported, live: state.live }),
    follows: followed?.good !== undefined,
    ageMs: followed ? ageMs(followed.readAt, clock.now()) : 0,
    ...(path && {
      source: {
        path,
        previewNone: preview === 'none',
        previewProject: typeof preview === 'object' ? preview.projects.map(BigInt) : [],
      },
    }),
  }
}

function pathMessage({ glob, file }: { readonly glob?: string; readonly file?: string }) {
  if (file !== undefined) return { path: { case: 'file' as const, value: file } }
  return { path: { case: 'glob' as const, value: glob ?? '' } }
}

/** @throws KasError INVALID_MESSAGE */
function keyIn(state: Uint8Array): SourceKey | undefined {
  const { project, name, removed } = decodeMessage(SourceStateSchema, state)
  return removed ? undefined : create(SourceKeySchema, { project, name })
}

function noSource(id: string): KasError {
  return new KasError({ code: 'NOT_SERVED', what: `source ${id} of this agent: kas gitops status lists its sources` })
}
