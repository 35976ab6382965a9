import { create, toBinary } from '@bufbuild/protobuf'
import { pushMethod } from '../../../src/kas/modules/gitops/state-push.ts'
import { SourceStateSchema } from '../../../src/proto/gen/gitops_states_pb.ts'
import { maxStateBytes } from '../../../src/proto/gitops-json.ts'
import type { Attack } from '../attack.ts'
import { repeat, withUnknownFields } from '../raw-messages.ts'
import { dialStreams } from '../raw-streams.ts'

interface Size {
  readonly ms: number
}

const state = create(SourceStateSchema, { source: 'evil-2', project: 'evil/clusters' })
const message = withUnknownFields(toBinary(SourceStateSchema, state), maxStateBytes)

export const stateStream: Attack<Size> = {
  name: 'state-stream',
  what: 'the state of a source, 64 KiB of fields that nobody knows, again and again on one stream',
  counter: 'kas_agent_rate_limited_total{method="GitopsStates/Push",outcome="slowed"}',
  cheap: { ms: 3000 },
  full: { ms: 15_000 },
  async play(stage, { ms }, signal) {
    const connection = await dialStreams(stage, stage.holder)
    const end = async () => connection.destroy()
    try {
      await repeat(connection.open(pushMethod, stage.evil.agentToken), message, ms, signal)
    } catch (error) {
      await end()
      throw error
    }
    return { refusal: '', end }
  },
}
