import { toBinary } from '@bufbuild/protobuf'
import type { AgentId } from '../../../../src/call/call.ts'
import { readState } from '../../../../src/kas/modules/gitops/cli/state.ts'
import { statusCode } from '../../../../src/kas/modules/gitops/cli/status.ts'
import { stateEndpoint } from '../../../../src/kas/modules/gitops/state-endpoint.ts'
import { States } from '../../../../src/kas/modules/gitops/states.ts'
import type { OwnRequest } from '../../../../src/kas/own-endpoint.ts'
import { noPeers } from '../../../../src/kas/peers/peers.ts'
import { type SourceState, SourceStateSchema } from '../../../../src/proto/gen/gitops_states_pb.ts'
import { bareDirectory, unpolled } from '../../../support/fake-host.ts'
import { ManualClock } from '../../../support/manual-clock.ts'

/** Returns the exit code of `kas gitops status` after a pod has reported these states. */
export async function exitOf(told: Iterable<SourceState>): Promise<number> {
  const agentId = 42n as AgentId
  const clock = new ManualClock()
  const states = new States(clock)
  const stream = states.open(agentId)
  for (const state of told) {
    const bytes = toBinary(SourceStateSchema, state)
    stream.put(state.source, { whole: bytes, cut: () => bytes, isRemoved: state.removed })
  }
  const endpoint = stateEndpoint({
    states,
    commits: { of: () => [] },
    agentConfig: { followed: () => undefined },
    serves: () => true,
    away: () => undefined,
    ...unpolled,
    directory: bareDirectory,
    peers: noPeers,
    clock,
  })
  const { body } = await endpoint.serve({ agentId } as OwnRequest)
  states.stop()
  return statusCode(readState(Buffer.from(body).toString()))
}
