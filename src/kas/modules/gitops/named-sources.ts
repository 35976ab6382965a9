import type { MessageInitShape } from '@bufbuild/protobuf'
import type { AgentId } from '../../../call/call.ts'
import { ageMs } from '../../../proto/age-ms.ts'
import { SourceStateSchema } from '../../../proto/gen/gitops_states_pb.ts'
import type { FollowedConfigurationSchema } from '../../../proto/gen/replica_gitops_pb.ts'
import { driftFeature } from '../../../proto/gitops/features.ts'
import { refText } from '../../../proto/gitops/ref-text.ts'
import { sourceDigest } from '../../../proto/gitops/source-digest.ts'
import { Reader } from '../../../proto/wire/wire.ts'
import type { FollowedConfig } from '../../agent-config/agent-configs.ts'
import { blockIn } from '../../agent-config/module-schema.ts'
import { gitopsBlock, sentSource } from './schema.ts'

/** Sources that an agent's configuration names, beside those that its pod reports. */
export type NamedSources = MessageInitShape<typeof FollowedConfigurationSchema>

/** `connected`: a pod of agentk; `stock`: GitLab's own agent; `absent`: no agent is known to be connected. */
export type AgentWord = 'connected' | 'stock' | 'absent'

/** Characters of a problem's text; the rest is cut. */
const maxProblemLength = 2000

export function agentWord(isOurs: boolean | undefined): AgentWord {
  if (isOurs === undefined) return 'absent'
  return isOurs ? 'connected' : 'stock'
}

export function followedConfiguration(
  { agent, good, error, readAt, hasFeature }: FollowedConfig,
  now: number,
): NamedSources {
  const block = blockIn(good, gitopsBlock)
  const knowsDrift = hasFeature(driftFeature)
  return {
    commit: good?.commit ?? '',
    problem: (error?.message ?? '').slice(0, maxProblemLength),
    isUnread: error?.code === 'REPOSITORY_FAILED',
    ageMs: ageMs(readAt, now),
    unchangedMs: good ? ageMs(good.since, now) : 0,
    source: (block?.manifest_projects ?? []).map((source) => ({
      project: source.id ?? agent.project.path,
      name: source.name ?? '',
      ref: refText(source.ref),
      digest: sourceDigest(sentSource(source)),
      isRefusedByOlder: source.drift !== undefined && !knowsDrift,
    })),
  }
}

/**
 * @returns the digest of each source, by project and name; empty: unknown; undefined: the configuration does not have
 * it
 */
export function digestsOf({ source = [] }: NamedSources): (project: string, name: string) => string | undefined {
  const digests = new Map(source.map(({ project = '', name = '', digest = '' }) => [keyOf(project, name), digest]))
  return (project, name) => digests.get(keyOf(project, name))
}

/** Part of the row of a source that the agent's pods refuse, since they are older than what it says. */
export const refusedByOlder = {
  phase: 'NOT_READY',
  reason: 'agent_older',
  problem: 'this agentk does not know drift, which the source sets: nothing of the source is applied',
  next: 'update agentk',
} as const

/** @returns function that is true for a source with something that a pod of the agent does not know */
export function unknownToOlder({ source = [] }: NamedSources): (project: string, name: string) => boolean {
  const refused = source.filter(({ isRefusedByOlder }) => isRefusedByOlder)
  const keys = new Set(refused.map(({ project = '', name = '' }) => keyOf(project, name)))
  return (project, name) => keys.has(keyOf(project, name))
}

/** Describes the agent's file for the answer. */
export function configurationJson({ commit = '', problem = '', isUnread, ageMs = 0 }: NamedSources): object {
  const state = isUnread
    ? { phase: 'NOT_READY', problem, next: 'it is read again by itself: the last one that could be read holds' }
    : { phase: 'REFUSED', problem, next: 'mend the file: the last one that could be read holds' }
  return { commit, age_ms: ageMs, ...(problem !== '' && state) }
}

const reasons = {
  connected: {
    reason: 'not_reported',
    problem: 'agentk has not reported this source',
    next: 'the log of agentk says why: an older one cannot read all that this kas takes',
  },
  stock: {
    reason: 'stock_agent',
    problem: 'GitLab’s own agent reports no status',
    next: 'run the agentk of this kas to see the status of the source',
  },
  absent: {
    reason: 'agent_absent',
    problem: 'no pod of the agent is connected',
    next: 'see why agentk does not connect: its log, and kas agents',
  },
} as const

/** Makes rows of the sources that the configuration names and no pod has reported. */
export function unreportedSources(
  agentId: AgentId,
  known: {
    readonly configuration: NamedSources | undefined
    /** as they were pushed */
    readonly states: readonly Uint8Array[]
    readonly agent: AgentWord
  },
): object[] {
  const reported = new Set(known.states.map(keyOfState))
  return (known.configuration?.source ?? []).flatMap(({ project = '', name = '', ref = '', isRefusedByOlder }) => {
    if (reported.has(keyOf(project, name))) return []
    const source = `${agentId}-${project}${name === '' ? '' : `-${name}`}`
    const nothing = { commit: '', wanted: '', trouble: [], plan: '', age_ms: 0, stale: false }
    const reason = isRefusedByOlder ? refusedByOlder : reasons[known.agent]
    return [{ source, project, name, ref, phase: 'NOT_READY', ...reason, ...nothing }]
  })
}

/** Reads only the key of a state. @throws KasError INVALID_MESSAGE */
function keyOfState(state: Uint8Array): string {
  let [project, name] = ['', '']
  const reader = new Reader(state)
  const { field } = SourceStateSchema
  while (reader.next()) {
    if (reader.field === field.project.number) project = reader.utf8
    if (reader.field === field.name.number) name = reader.utf8
  }
  return keyOf(project, name)
}

function keyOf(project: string, name: string): string {
  return `${project.toLowerCase()} ${name}`
}
