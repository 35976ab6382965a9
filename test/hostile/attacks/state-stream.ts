import { create, toBinary } from '@bufbuild/protobuf'
import { pushMethod } from '../../../src/kas/modules/gitops/states-receiver.ts'
import { Phase, SourceStateSchema } from '../../../src/proto/gen/gitops_states_pb.ts'
import { framePrefix } from '../../../src/proto/grpc/frames.ts'
import type { Attack } from '../attack.ts'
import { repeat } from '../raw-messages.ts'
import { dialStreams, playedOn } from '../raw-streams.ts'

interface Size {
  readonly ms: number
}

/** The most trouble that one state may name, each text as long as possible. */
const trouble = Array.from({ length: 100 }, (_, i) => ({
  key: { version: 'v1', kind: 'ConfigMap', namespace: 'evil', name: `evil-${i}` },
  text: 'x'.repeat(560),
  file: 'evil.yaml',
  line: i + 1,
}))
const state = toBinary(
  SourceStateSchema,
  create(SourceStateSchema, { source: 'evil-2', phase: Phase.FAILING, trouble }),
)
const message = Buffer.concat([framePrefix(state.length), state])

export const stateStream: Attack<Size> = {
  name: 'state-stream',
  what: 'the state of a source, 60 KiB of objects that are not well, again and again on one stream',
  counter: 'kas_agent_rate_limited_total{method="GitopsStates/Push",outcome="slowed"}',
  cheap: { ms: 2000 },
  full: { ms: 15_000 },
  async play(stage, { ms }, signal) {
    const connection = await dialStreams(stage, stage.holder)
    return await playedOn([connection], async () => {
      await repeat(connection.open(pushMethod, stage.evil.agentToken), message, ms, signal)
      return ''
    })
  },
}
