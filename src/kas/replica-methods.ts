import { create } from '@bufbuild/protobuf'
import type { AgentId } from '../call/call.ts'
import { KasError } from '../lib/errors.ts'
import {
  BranchMovedResponseSchema,
  CallCountsResponseSchema,
  ForgetPodResponseSchema,
  Leads,
  Limits,
  Notifications,
  PassedOnResponseSchema,
  PushEventResponseSchema,
  Pushes,
  RecentPushesResponseSchema,
  Registrations,
} from '../proto/gen/replica_pb.ts'
import type { Handler } from '../proto/grpc/server-session.ts'
import { readOneMessage } from '../proto/grpc/unary.ts'
import { type UnaryMethod, unaryService } from '../proto/unary.ts'
import type { ConnectedAgents } from './modules/agent-tracker/own-registrations.ts'
import type { RecentPushes } from './modules/flux/recent-pushes.ts'
import type { Leads as OwnLeads } from './replicas/leads.ts'
import type { PushEvents } from './repositories/pushes.ts'
import type { Repositories } from './repositories/repositories.ts'
import type { CallCounts } from './servers/agents/call-counts.ts'

export interface ReplicaMethodsComponents {
  /** this replica's alone: what another tells is not passed on */
  readonly pushEvents: PushEvents
  readonly repositories: Pick<Repositories, 'poke'>
  readonly connectedAgents: Pick<ConnectedAgents, 'forget'>
  readonly leads: Pick<OwnLeads, 'passOver'>
  readonly counts: Pick<CallCounts, 'hear'>
  readonly recentPushes: Pick<RecentPushes, 'learn'>
}

/** What other replicas may call on 8155 for their own purposes, by `/kas.replica.v1.Service/Method`. */
export function replicaMethods({
  pushEvents,
  repositories,
  connectedAgents,
  leads,
  counts,
  recentPushes,
}: ReplicaMethodsComponents): Readonly<Record<string, Handler>> {
  const methods = new Map([
    ...unaryService(Notifications, {
      pushEvent: async ({ projectId, projectPath, pushId }) => {
        if (projectId <= 0n) throw new KasError({ code: 'INVALID_MESSAGE', detail: 'project_id must be above 0' })
        await pushEvents.publish({ projectId, projectPath, ...(pushId ? { id: pushId } : {}) })
        return create(PushEventResponseSchema)
      },
      branchMoved: async ({ projectId }) => {
        repositories.poke(projectId).catch(() => undefined) // its log line stands already, and nobody waits for it
        return create(BranchMovedResponseSchema)
      },
    }),
    ...unaryService(Registrations, {
      forgetPod: async ({ agentId, podId }) => {
        connectedAgents.forget(agentId as AgentId, podId)
        return create(ForgetPodResponseSchema)
      },
    }),
    ...unaryService(Pushes, {
      recentPushes: async ({ push }) => {
        recentPushes.learn(push.map(({ pushId, ...each }) => ({ ...each, id: pushId })))
        return create(RecentPushesResponseSchema)
      },
    }),
    ...unaryService(Leads, {
      passedOn: async ({ agentId, name }) => {
        leads.passOver(agentId as AgentId, name)
        return create(PassedOnResponseSchema)
      },
    }),
    ...unaryService(Limits, {
      callCounts: async ({ name, minute, count }) => {
        const told = count.map(({ tokenHash, calls }) => [Buffer.from(tokenHash).toString('base64'), calls] as const)
        counts.hear(name, { minute: Number(minute), counts: new Map(told) })
        return create(CallCountsResponseSchema)
      },
    }),
  ])
  return Object.fromEntries(Array.from(methods, ([name, method]) => [name, handlerOf(method)]))
}

function handlerOf(method: UnaryMethod): Handler {
  return async (stream) => {
    await stream.send(await method(await readOneMessage(stream.messages)))
  }
}
