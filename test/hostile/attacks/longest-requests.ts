import { create, toBinary } from '@bufbuild/protobuf'
import { abortable } from '../../../src/lib/signals.ts'
import { AgentRegistrar, RegisterRequestSchema } from '../../../src/proto/gen/agent_registrar_pb.ts'
import { GitLabFlux, ReconcileProjectsRequestSchema } from '../../../src/proto/gen/flux_pb.ts'
import type { ClientStream } from '../../../src/proto/grpc/client-session.ts'
import { methodPath } from '../../../src/proto/unary.ts'
import type { FakeAgent } from '../../support/fake-agent.ts'
import type { Attack } from '../attack.ts'
import { dialAgent, heard, type Stage } from '../stage.ts'

interface Size {
  readonly pods: number
  /** streams that ask with lists of projects */
  readonly streams: number
}

/** the longest description that a pod may send */
const metaBytes = 4000
const podsAtOnce = 16
/** the most projects, with the longest paths, that one list may have */
const projects = 10_000
const pathLength = 96

function ask({ session }: FakeAgent, stage: Stage, method: string): ClientStream {
  return session.open({ method, metadata: { authorization: [`Bearer ${stage.evil.agentToken}`] } })
}

function registration(podId: number): Uint8Array {
  const agentMeta = { version: String(podId).padEnd(metaBytes, 'x') }
  return toBinary(RegisterRequestSchema, create(RegisterRequestSchema, { podId: BigInt(podId), agentMeta }))
}

function projectList(stream: number): Uint8Array {
  const project = Array.from({ length: projects }, (_, i) => ({ id: `${stream}/${i}/`.padEnd(pathLength, 'x') }))
  return toBinary(ReconcileProjectsRequestSchema, create(ReconcileProjectsRequestSchema, { project }))
}

export const longestRequests: Attack<Size> = {
  name: 'longest-requests',
  what: 'pods that register, and lists of projects, as many and as long as may be',
  refusal: /bytes of paths|rate limit/,
  counter: 'kas_agents_refused_total{reason="too_many_streams"}',
  cheap: { pods: 520, streams: 25 },
  full: { pods: 3000, streams: 31 },
  async play(stage, { pods, streams }, signal) {
    const agent = await dialAgent(stage, stage.holder)
    const refusals = new Set<string>()
    const end = async () => agent.close()
    let podId = 0
    const register = async () => {
      while (podId < pods) {
        const call = ask(agent, stage, methodPath(AgentRegistrar.method.register))
        await call.send(registration(++podId))
        call.end()
        const { error } = await call.done
        if (error?.code === 'STATUS') return void refusals.add(error.message) // too many calls in this minute
        if (error) throw error
      }
    }
    try {
      await abortable(Promise.all(Array.from({ length: podsAtOnce }, register)), signal)
      const lists = Array.from({ length: streams }, () =>
        ask(agent, stage, methodPath(GitLabFlux.method.reconcileProjects)),
      )
      for (const { done } of lists) void done.then(({ error }) => error && refusals.add(error.message))
      await abortable(heard(agent), signal)
      for (const [i, list] of lists.entries()) {
        void list.send(projectList(i))
        list.end()
        await abortable(heard(agent), signal)
      }
    } catch (error) {
      await end()
      throw error
    }
    return { refusal: [...refusals].join('; ') || `all ${streams} were taken`, end }
  },
}
