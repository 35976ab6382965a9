import { gzipSync } from 'node:zlib'
import { create, toBinary } from '@bufbuild/protobuf'
import { getConfigurationMethod } from '../../../src/kas/modules/configuration/configuration.ts'
import { abortable } from '../../../src/lib/signals.ts'
import { ConfigurationRequestSchema } from '../../../src/proto/gen/agent_configuration_pb.ts'
import { connectMethod } from '../../../src/proto/reverse-tunnel.ts'
import { framed } from '../../contract/grpc/raw-peers.ts'
import { type Attack, over } from '../attack.ts'
import { dialStreams } from '../raw-streams.ts'

interface Size {
  /** streams of a stranger, and as many of the evil tenant */
  readonly streams: number
  /** messages of each stream, each 4 MiB once it is decompressed */
  readonly messages: number
}

const bomb = framed(1, gzipSync(Buffer.alloc(4 * 1024 * 1024), { level: 9 }))
const quiet = { skipRegister: true }
/** the only message that kas reads at once; it never reads the ones after it */
const firstMessage = framed(0, toBinary(ConfigurationRequestSchema, create(ConfigurationRequestSchema, quiet)))

export const gzip: Attack<Size> = {
  name: 'gzip',
  what: 'messages of 4 KiB that are 4 MiB once decompressed, of a stranger and of an agent, never read',
  refusal: /^(7|8|16) /,
  counter: 'kas_agents_refused_total{reason="unauthenticated"}',
  cheap: { streams: 48, messages: 4 },
  full: { streams: 120, messages: 4 },
  async play(stage, { streams, messages }, signal) {
    const [stranger, tenant] = [await dialStreams(stage, stage.holder), await dialStreams(stage, stage.holder)]
    const bombs = Buffer.concat(Array.from({ length: messages }, () => bomb))
    const all = Buffer.concat([firstMessage, bombs])
    try {
      for (let i = 0; i < streams; i++) void tenant.open(getConfigurationMethod, stage.evil.agentToken).write(all)
      const refused = Array.from({ length: streams }, () => {
        const stream = stranger.open(connectMethod, undefined)
        void stream.write(bombs)
        return stream.refused
      })
      const [refusal = ''] = await abortable(Promise.all(refused), signal)
      await abortable(tenant.open(connectMethod, undefined).refused, signal) // kas has read all before it
      return over(refusal)
    } finally {
      stranger.destroy()
      tenant.destroy()
    }
  },
}
