import { create, fromBinary, toBinary } from '@bufbuild/protobuf'
import type { Test } from 'tap'
import type { ApiClient } from '../../../../src/agentk/cluster/api-client.ts'
import type { AgentId } from '../../../../src/call/call.ts'
import { kasCaller } from '../../../../src/call/caller.ts'
import { KnownMessages } from '../../../../src/call/known-messages.ts'
import { callerMessage } from '../../../../src/kas/agent-caller.ts'
import { type Clock, systemClock } from '../../../../src/lib/clock.ts'
import { DriftRequestSchema, DriftResponseSchema } from '../../../../src/proto/gen/gitops_drift_pb.ts'
import { Gitops } from '../../../../src/proto/gen/gitops_questions_pb.ts'
import { Phase, type SourceState } from '../../../../src/proto/gen/gitops_states_pb.ts'
import type { SourceBlock } from '../../../../src/proto/gitops/schema.ts'
import { methodPath } from '../../../../src/proto/unary.ts'
import { eventually } from '../../../support/eventually.ts'
import { ProjectKas, startGitops } from './gitops-side.ts'
import type { Ground } from './ground.ts'

/** A source of a project of its own, followed by agentk with a kas and a real API server. */

export interface FollowedOptions {
  readonly projectId: bigint
  readonly block?: SourceBlock
  /** default: the ground's, which may do everything */
  readonly client?: ApiClient
  readonly serverClock?: Clock
  /** identities that agentk may act as */
  readonly accepted?: Parameters<typeof startGitops>[7]
  /** folders of rendering programs; default: none */
  readonly path?: string
  /** default: a new project */
  readonly project?: ProjectKas
}

/** Starts the source with these files, and waits until they are applied. */
export async function followSource(
  t: Test,
  ground: Ground,
  files: Readonly<Record<string, string>>,
  { projectId, block = {}, client = ground.client, serverClock = systemClock, ...more }: FollowedOptions,
) {
  const project = more.project ?? new ProjectKas(projectId)
  const id = `42-${projectId}`
  const source = { id: 'platform/shop', default_namespace: 'shop', prune_propagation_policy: 'background' } as const
  const blocks = { manifest_projects: [{ ...source, ...block }] }
  const side = await startGitops(t, ground, project, blocks, client, serverClock, systemClock, more.accepted, more.path)
  const state = () => project.states.findLast(({ source: one }) => one === id)
  /** Waits for a state, and names the one that stayed in its place. */
  const becomes = async (is: (state: SourceState) => boolean | undefined): Promise<SourceState> =>
    await eventually(() => {
      const now = state()
      return now !== undefined && is(now) === true && now
    }).catch((cause) => {
      const shown = JSON.stringify(state(), (_, one) => (typeof one === 'bigint' ? String(one) : one))
      throw new Error(
        `${shown} ${side.lines
          .slice(-3)
          .map((line) => JSON.stringify(line))
          .join(' ')}`,
        { cause },
      )
    })
  const becomesSynced = () => becomes((now) => now.phase === Phase.SYNCED && now.commit === project.commit)
  /** Compares all objects. @returns the number of those that were compared */
  const scan = async (): Promise<number> => {
    const method = methodPath(Gitops.method.drift)
    const caller = callerMessage({ key: 'agent' }, undefined)
    const request = create(DriftRequestSchema, { caller, source: id, scan: true })
    const reply = await side.methods().get(method)?.({
      agentId: 42n as AgentId,
      method,
      metadata: {},
      messages: new KnownMessages([toBinary(DriftRequestSchema, request)]),
      safety: 'safe',
      caller: kasCaller,
      signal: new AbortController().signal,
    })
    if (!reply) throw new Error('agentk serves no questions about drift')
    const answers = await Array.fromAsync(reply.messages as AsyncIterable<Uint8Array>)
    const { error } = await reply.done
    if (error) throw error
    const { what } = fromBinary(DriftResponseSchema, answers.at(-1) ?? new Uint8Array())
    return what.case === 'end' ? what.value.compared : 0
  }
  project.push(files)
  await becomesSynced()
  return { id, project, state, becomes, becomesSynced, scan, ...side }
}

/** Manifest of a ConfigMap. */
export const mapOf = (name: string, value = '1', metadata: object = {}): string =>
  JSON.stringify({ apiVersion: 'v1', kind: 'ConfigMap', metadata: { name, ...metadata }, data: { value } })
