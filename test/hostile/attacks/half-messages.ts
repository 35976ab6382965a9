import { abortable } from '../../../src/lib/signals.ts'
import { framePrefix } from '../../../src/proto/grpc/frames.ts'
import { connectMethod } from '../../../src/proto/reverse-tunnel.ts'
import type { Attack } from '../attack.ts'
import { dialStreams } from '../raw-streams.ts'

interface Size {
  readonly streams: number
}

/** the longest message that kas accepts */
const messageBytes = 4 * 1024 * 1024

export const halfMessages: Attack<Size> = {
  name: 'half-messages',
  what: 'long messages of an agent, each without its last byte, on many streams',
  refusal: /received message larger than max/,
  counter: 'kas_agents_refused_total{reason="invalid_message"}',
  cheap: { streams: 40 },
  full: { streams: 120 },
  async play(stage, { streams }, signal) {
    const session = await dialStreams(stage, stage.holder)
    const message = Buffer.concat([framePrefix(messageBytes), Buffer.alloc(messageBytes - 1)])
    const refusals = new Set<string>()
    const end = async () => session.destroy()
    try {
      for (let i = 0; i < streams; i++) {
        const stream = session.open(connectMethod, stage.evil.agentToken)
        void stream.refused.then((refusal) => refusals.add(refusal))
        await abortable(Promise.race([stream.write(message), stream.refused]), signal)
      }
    } catch (error) {
      await end()
      throw error
    }
    return { refusal: [...refusals].join('; '), end }
  },
}
